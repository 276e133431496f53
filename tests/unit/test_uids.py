"""Identities that the API server makes."""

import uuid

from trainshed.cluster.apiserver.uids import new_uid


def test_a_uid_is_a_random_uuid_in_its_usual_form() -> None:
    made = [new_uid() for _ in range(1000)]
    assert len(set(made)) == 1000
    for text in made:
        read = uuid.UUID(text)
        assert (str(read), read.version, read.variant) == (text, 4, uuid.RFC_4122)
