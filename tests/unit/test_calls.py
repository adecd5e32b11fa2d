"""What parent and child tell each other arrives as it was."""

import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive import calls
from redrive.config import Config
from redrive.config.settings import RetryTables, WorkerSettings
from redrive.store import AnySettlement, Buried, Discarded, Done, Released, Retried, Snoozed
from redrive.testing.factories import a_failure, a_job

JOB = a_job(
    payload=b'{"n": 12345678901234567890, "t": "\xc3\xa9"}', headers=b'{"a":"b"}', needs=("db",), fence=7, suspect=2
)

SETTLEMENTS: list[AnySettlement] = [
    Done(job=JOB, duration=5, result=b"[1.0]", note="the result was too large"),
    Retried(job=JOB, duration=5, at=9, failure=a_failure(), spend=0, crashed=1, lost=1, suspect=1),
    Snoozed(job=JOB, until=9, why="not yet"),
    Buried(job=JOB, failure=a_failure(traceback=None), why="exhausted 3 attempts", ran=False),
    Discarded(job=JOB, reason="discarded", why="duplicate order"),
    Released(job=JOB, at=9, why="its worker stops", suspect=1, unknown_task=True),
]


def test_every_kind_of_settlement_is_tried() -> None:
    """A new one has to be added here."""
    assert {type(settlement) for settlement in SETTLEMENTS} == set(AnySettlement.__args__)


@pytest.mark.parametrize("settlement", SETTLEMENTS, ids=lambda settlement: type(settlement).__name__)
def test_a_settlement_comes_back_about_its_job(settlement: AnySettlement) -> None:
    """The job itself does not travel back: its payload may be large, and its fence must be the parent's."""
    frame = calls.encode_settlement(settlement)
    assert calls.decode_settlement(frame, JOB) == settlement
    assert JOB.payload not in frame


@given(payload=st.binary(max_size=200), now=st.integers(0, 2**62), fence=st.integers(0, 2**62))
def test_a_job_arrives_as_it_was(payload: bytes, now: int, fence: int) -> None:
    """Its payload is bytes, which nobody reads on the way."""
    job = msgspec.structs.replace(JOB, payload=payload, fence=fence)
    assert calls.decode(calls.encode(job, now)) == calls.Call(job, now)


def test_a_child_learns_the_settings_and_where_to_import_from() -> None:
    """Flags and files that only the parent has read."""
    tables = RetryTables(default={"backoff": "fixed", "base": "5s"}, named={"slow": {"max_attempts": 9}})
    config = Config(url="sqlite:////data/jobs.db", worker=WorkerSettings(queues={"email": None}), retry=tables)
    assert calls.decode_hello(calls.hello("shop:app", "w1", config)) == calls.Hello(
        app="shop:app", worker="w1", path=tuple(sys.path), config=config
    )


@pytest.mark.parametrize("setting", [lambda attempt: 5.0, object()])
def test_settings_that_cannot_travel_are_left_to_the_import(setting: Any) -> None:
    """They were made in code, which the child runs again."""
    config = Config(retry=RetryTables(default={"backoff": setting}))
    told = calls.decode_hello(calls.hello("shop:app", "w1", config))
    assert (told.app, told.config) == ("shop:app", None)
