"""Which releases are meant by what a person writes."""

import pytest

from redrive.errors import UsageError
from redrive.releases import is_wanted, release_wanted
from redrive.store import Plan, Redrive, Worker
from redrive.testing.factories import a_worker
from redrive.waiting import fixed, serve


@pytest.mark.parametrize(
    ("wanted", "release", "fits"),
    [
        (">= 2.4.1", "2.4.1", True),
        (">= 2.4.1", "2.10", True),
        (">= 2.4.1", "2.4.0", False),
        (">= 2.4.1", "v2.5", True),
        (">= 2.4.1", "2.5.0rc1", True),
        (">= 2.4.1, < 3", "3.0", False),
        ("~= 2.4", "2.9", True),
        ("2.4.1", "2.4.1.0", True),
        ("2.4.1", "2.4.2", False),
        ("build-77", "build-77", True),
        ("build-77", "build-78", False),
        (">= 2.4.1", "build-78", False),
        (">= 2.4.1", None, False),
        ("2.4.1", "build-78", False),
    ],
)
def test_a_release_is_compared_as_a_version_where_it_is_one(wanted: str, release: str | None, fits: bool) -> None:
    """By PEP 440; else only the same text fits."""
    assert is_wanted(wanted, release) is fits


@pytest.mark.parametrize("text", ["", "   ", ">= two", "> ", "2\n3", "x" * 201])
def test_what_names_no_release_is_refused(text: str) -> None:
    """One sentence, before anything is begun."""
    with pytest.raises(UsageError, match="when_release"):
        release_wanted(text)


def test_a_wish_is_kept_as_it_was_written() -> None:
    """Without the spaces around it."""
    assert release_wanted(" >= 2.4.1 ") == ">= 2.4.1"
    assert release_wanted(None) is None


def waiting(spec: str) -> Redrive:
    """A redrive that waits."""
    return Redrive(id="r", plan=Plan(when_release=spec), actor="a", reason="", state="waiting", opened_at=0)


def test_a_worker_that_drains_does_not_count() -> None:
    """It takes no more jobs; nor does one of another release."""
    new = a_worker(id="new", release="2.4.1")
    others = [
        a_worker(id="old", release="2.4.0"),
        a_worker(id="leaves", release="2.4.1", state="draining"),
        a_worker(id="told", release="2.4.1", order="drain"),
        a_worker(id="unknown"),
    ]
    assert fixed(waiting(">= 2.4.1"), [*others, new]) == [new]


@pytest.mark.parametrize(
    ("worker", "serves"),
    [
        (a_worker(tasks=("mail",)), True),
        (a_worker(tasks=("mail", "pay"), queues=("email", "slow")), True),
        (a_worker(tasks=("pay",)), False),
        (a_worker(tasks=("mail",), queues=("slow",)), False),
    ],
)
def test_only_a_worker_that_serves_the_letters_counts(worker: Worker, serves: bool) -> None:
    """Its queues and its tasks; no queues are every queue."""
    assert serve([worker], [("email", "mail")]) is serves


def test_every_place_needs_its_worker() -> None:
    """Letters of a task whose fix is not there yet would only fail again."""
    mail, pay = a_worker(id="a", tasks=("mail",)), a_worker(id="b", tasks=("pay",))
    places = [("default", "mail"), ("default", "pay")]
    assert not serve([mail], places)
    assert serve([mail, pay], places)
