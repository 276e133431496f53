"""Settings for all tests."""

from hypothesis import settings

# Machines that run the tests are shared: how long one example takes says nothing. Examples are still bounded in number.
settings.register_profile("trainshed", deadline=None)
settings.load_profile("trainshed")
