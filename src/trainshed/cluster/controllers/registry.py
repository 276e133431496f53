"""The controllers that a client and the informers are enough for, one line each.

Those that are told more are made where that is known, in `cluster/control/controlplane.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from trainshed.client.client import Client
from trainshed.client.controllers.controller import Controller
from trainshed.client.controllers.informers import SharedInformers
from trainshed.client.informer import Key
from trainshed.cluster.controllers.disruptions import DisruptionController
from trainshed.cluster.controllers.endpoints import EndpointsController
from trainshed.cluster.controllers.taintevictions import TaintEvictionController
from trainshed.cluster.controllers.workloads.cronjobs import CronJobController
from trainshed.cluster.controllers.workloads.daemonsets import DaemonSetController
from trainshed.cluster.controllers.workloads.deployments import DeploymentController
from trainshed.cluster.controllers.workloads.jobs import JobController
from trainshed.cluster.controllers.workloads.replicasets import (
    ReplicaSetController,
    ReplicationControllerController,
)
from trainshed.cluster.controllers.workloads.statefulsets import StatefulSetController


def controllers(client: Client, informers: SharedInformers) -> Iterable[Controller[Key]]:
    """Return one of each."""
    return [
        make(client, informers)
        for make in (
            EndpointsController,
            ReplicaSetController,
            ReplicationControllerController,
            DaemonSetController,
            DeploymentController,
            JobController,
            StatefulSetController,
            CronJobController,
            DisruptionController,
            TaintEvictionController,
        )
    ]
