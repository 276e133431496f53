"""A job in a notebook: what is shown, and that nothing of it is taken for markup."""

from __future__ import annotations

from html.parser import HTMLParser

import msgspec

from trainshed.sdk.display import JobFacts, job_html
from trainshed.sdk.progress import Progress
from trainshed.sdk.state import Replica

EVIL = '<script>alert("x")</script>&'


class Page(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_state_replicas_progress_and_last_lines() -> None:
    progress = Progress(
        epochs=2, first_epoch=1, epoch=1, seen=50, total=100, scope="epoch", losses=(2.0, 1.5), accuracy=0.75
    )
    page = Page(
        job_html(
            JobFacts(
                "PyTorchJob",
                "ns",
                "mnist",
                "Running",
                "all pods run",
                [Replica("master-0", "mnist-master-0", "Running", restarts=2)],
                progress,
                {"master-0": ["one", "two"], "worker-0": []},
            )
        )
    )
    for text in (
        *("PyTorchJob", "ns/mnist", "Running", "all pods run", "master-0"),
        *("epoch 1", "25%", "loss 1.5000", "accuracy 0.7500", "one\ntwo"),
    ):
        assert text in page.text, text
    assert page.tags.count("details") == 1, "a replica that said nothing has nothing to show"


def test_a_share_of_an_epoch_says_of_how_many_steps_it_is_and_one_of_the_run_does_not() -> None:
    progress = Progress(first_epoch=1, epoch=1, seen=50, total=200, scope="epoch")
    for epochs, text in ((None, "epoch 1  25% of 200 steps"), (2, "epoch 1  12%")):
        told = msgspec.structs.replace(progress, epochs=epochs)
        page = Page(job_html(JobFacts("PyTorchJob", "ns", "mnist", "Running", "", [], told, {})))
        assert page.text.rstrip().endswith(text)


def test_nothing_that_a_user_or_a_pod_wrote_is_markup() -> None:
    replica = Replica(EVIL, EVIL, EVIL, EVIL)
    page = Page(job_html(JobFacts(EVIL, EVIL, EVIL, EVIL, EVIL, [replica], Progress(), {EVIL: [EVIL]})))
    assert "script" not in page.tags
    assert page.text.count(EVIL) == 10


def test_a_job_that_nobody_has_seen_yet() -> None:
    page = Page(job_html(JobFacts("PyTorchJob", "ns", "mnist", "Pending")))
    assert "table" not in page.tags and "Pending" in page.text
