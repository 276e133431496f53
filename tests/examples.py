"""How many examples `hypothesis` makes up: some dozens in each run, and a thousand in the long form.

    pytest --hypothesis-profile long tests/unit

Each run makes up others, so what one misses is for the next.
"""

from __future__ import annotations

from hypothesis import settings

PROFILE = "trainshed"

# Machines that run the tests are shared: how long one example takes says nothing. Examples are still bounded in number.
settings.register_profile(PROFILE, deadline=None, max_examples=40)
settings.register_profile("long", deadline=None, max_examples=1_000)


def times(factor: float) -> settings:
    """Return the settings of a test that needs more examples than others, or fewer, in either form."""
    return settings(max_examples=round(settings().max_examples * factor))
