"""TokenReviews: whose token is this."""

from __future__ import annotations

from trainshed.kube.builtin.kind import Builtin, review
from trainshed.kube.meta.resources import Resource

KIND = Builtin(
    info=review(Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)),
    does="checks a token",
)
