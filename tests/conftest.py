"""Settings for all tests."""

from hypothesis import settings

from tests.e2e.cluster_fixture import cluster, make_cluster, session_cluster, shared_folder
from tests.e2e.pods import kube
from tests.examples import PROFILE

pytest_plugins = ["trainshed.testing.plugin", "tests.second_attempt", "tests.settled"]

__all__ = ("cluster", "kube", "make_cluster", "session_cluster", "shared_folder")

settings.load_profile(PROFILE)
