"""SelfSubjectAccessReviews: may I."""

from __future__ import annotations

from trainshed.kube.builtin.kind import Builtin, review
from trainshed.kube.meta.resources import Resource

KIND = Builtin(
    info=review(
        Resource(
            "authorization.k8s.io",
            "v1",
            "selfsubjectaccessreviews",
            "SelfSubjectAccessReview",
            namespaced=False,
        )
    ),
    does="answers from the roles (`kubectl auth can-i`)",
)
