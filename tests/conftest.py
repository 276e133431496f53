"""Settings for all tests."""

from hypothesis import settings

from tests.e2e.cluster_fixture import cluster, make_cluster, session_cluster, shared_folder
from tests.e2e.pods import kube

pytest_plugins = ["trainshed.testing.plugin", "tests.second_attempt", "tests.settled"]

__all__ = ("cluster", "kube", "make_cluster", "session_cluster", "shared_folder")

# Machines that run the tests are shared: how long one example takes says nothing. Examples are still bounded in number.
settings.register_profile("trainshed", deadline=None)
settings.load_profile("trainshed")
