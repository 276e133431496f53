"""SelfSubjectReviews, which `kubectl auth whoami` asks in either version."""

from __future__ import annotations

from trainshed.kube.builtin.kind import Builtin, review
from trainshed.kube.meta.resources import Resource

_DOES = "answers who you are"

KIND = Builtin(
    info=review(
        Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
    ),
    does=_DOES,
)
KIND_V1BETA1 = Builtin(
    info=review(
        Resource(
            "authentication.k8s.io", "v1beta1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
        )
    ),
    does=_DOES,
)
