"""What `decide` is given: one consistent-enough view of a job and its children, the time, the options.

The view may be stale or partial; see `decide` for what holds then.
"""

from __future__ import annotations

import msgspec

from trainshed.jobs.v1.initcontainer import DEFAULT_IMAGE, DEFAULT_MAX_TRIES, DEFAULT_TEMPLATE, render
from trainshed.kube.meta.objects import Object


class OperatorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How this operator was started.

    legacy_labels: also write the short labels of older operators (`job-name`, `replica-type`, ...).
    init_container_image: image of the container in which a worker waits for its master.
    init_container_max_tries: look-ups of the master's name before the worker gives up; 2 seconds apart.
    init_container_template: YAML list of containers with `{{.MasterAddr}}`, `{{.InitContainerImage}}`
        and `{{.MaxTries}}` to fill in.

    Raises ValueError when the template renders to no list of containers, so that a wrong one stops
    the operator at its start instead of every job later.
    """

    legacy_labels: bool = False
    init_container_image: str = DEFAULT_IMAGE
    init_container_max_tries: int = DEFAULT_MAX_TRIES
    init_container_template: str = DEFAULT_TEMPLATE

    def __post_init__(self) -> None:
        self.init_containers("job-master-0")

    def init_containers(self, master_addr: str) -> list[Object]:
        """Return the containers that wait until `master_addr` has a DNS name."""
        return render(
            self.init_container_template,
            master_addr=master_addr,
            image=self.init_container_image,
            max_tries=self.init_container_max_tries,
        )


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """One view of the world. Objects are shared with caches: nothing may change them.

    job: the stored document, not defaulted.
    pods, services: at least every child in the job's namespace with the labels operator-name and
        job-name of this job; others are ignored.
    hpa: the HorizontalPodAutoscaler with the job's name and namespace, if there is one.
    now: seconds since the epoch.
    """

    job: Object
    pods: list[Object]
    services: list[Object]
    hpa: Object | None = None
    now: float
    options: OperatorOptions = OperatorOptions()
