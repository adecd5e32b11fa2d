"""Values as they stand in the file, and back: ids as 16 bytes, names as JSON lists, text that can be written."""

from array import array
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import apsw
import msgspec

from redrive.errors import UsageError
from redrive.job import Job, State
from redrive.letter import Failure
from redrive.store import Entry

Row = tuple[Any, ...]
_STATES = {state.value: state for state in State}
"""The same as `State(text)`, at a tenth of its cost."""


def packed(id: str) -> bytes:
    """An id as its 16 bytes."""
    blob = unpacked_or_none(id)
    if blob is None:
        raise UsageError(f"{id!r} is not an id: write a UUID such as 0199b2c4-7d1e-7c3a-9f52-3f6d5a1f01c2")
    return blob


def unpacked_or_none(id: str) -> bytes | None:
    """The 16 bytes of an id, or None when it cannot be one."""
    try:
        blob = bytes.fromhex(id.replace("-", ""))
    except ValueError:
        return None
    return blob if len(blob) == 16 else None


def spelled(blob: bytes) -> str:
    """An id as people write it."""
    digits = blob.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def ids_of(ids: Iterable[str]) -> "apsw.CArrayBinding | None":
    """Several ids as one parameter; what cannot be an id is left out, and None stands for nothing."""
    return blobs_of([blob for blob in map(unpacked_or_none, ids) if blob is not None])


def blobs_of(blobs: Sequence[bytes]) -> "apsw.CArrayBinding | None":
    """Several byte strings as one parameter."""
    return apsw.carray(tuple(blobs)) if blobs else None


def texts_of(texts: Iterable[str]) -> "apsw.CArrayBinding | None":
    """Several texts as one parameter."""
    found = tuple(texts)
    return apsw.carray(found) if found else None


def numbers_of(numbers: Iterable[int]) -> "apsw.CArrayBinding | None":
    """Several numbers as one parameter."""
    found = array("q", numbers)
    return apsw.carray(found) if found else None


def listed(names: Sequence[str]) -> str:
    """Names as a JSON list."""
    return msgspec.json.encode(names).decode()


def names_in(text: str) -> tuple[str, ...]:
    """The names in a JSON list."""
    return msgspec.json.decode(text, type=tuple[str, ...]) if text else ()


def writable(text: str) -> str:
    """Text that SQLite can take: half a surrogate pair is spelled out, because the failure path cannot fail."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def writable_or_none(text: str | None) -> str | None:
    """The same where there may be none."""
    return text if text is None else writable(text)


def job_row(job: Job, state: State, due_at: int, now: int, id: bytes) -> Row:
    """The parameters of `add_job`."""
    return (
        id, job.task, job.payload, job.queue, job.priority, due_at, job.key, job.external_id, job.headers, job.batch,
        job.item, job.parent, job.redrive, listed(job.needs) if job.needs else "", job.expires, job.release,
        job.policy, job.created_at or now, job.wire_version, job.encoding, state.value, job.epoch,
        job.epoch_at or now, job.payload_version, job.starts, job.attempts, job.crashes, job.losses, job.suspect,
        job.fence,
    )  # fmt: skip


def job_of(row: Row) -> Job:
    """A job from the columns after `seq`."""
    return Job(
        id=spelled(row[1]),
        state=_STATES[row[2]],
        queue=row[3],
        priority=row[4],
        due_at=row[5],
        fence=row[6],
        starts=row[7],
        attempts=row[8],
        crashes=row[9],
        losses=row[10],
        suspect=row[11],
        epoch=row[12],
        epoch_at=row[13],
        payload_version=row[14],
        wire_version=row[15],
        encoding=row[16],
        created_at=row[17],
        expires=row[18],
        task=row[19],
        key=row[20],
        external_id=row[21],
        batch=row[22],
        item=row[23],
        parent=row[24],
        redrive=row[25],
        release=row[26],
        needs=names_in(row[27]),
        headers=row[28],
        policy=row[29],
        payload=row[30],
    )


def hash_of(text: str) -> bytes:
    """What a traceback is known by."""
    return blake2b(text.encode(), digest_size=16).digest()


def failure_row(job: bytes, failure: Failure, traceback: bytes | None) -> Row:
    """The parameters of `add_failure`."""
    f = failure
    return (
        job, f.epoch, f.attempt, f.at, f.duration, writable(f.reason), writable(f.type), writable(f.message), traceback,
        writable(f.fingerprint), writable(f.title), f.retryable, writable_or_none(f.step), writable(f.host), f.process,
        writable_or_none(f.release), writable(f.worker), writable_or_none(f.cause), f.truncated, writable(f.frame),
        writable(f.plain), writable(f.plain_title),
    )  # fmt: skip


def failure_of(row: Row) -> Failure:
    """A failure from the columns of `failures_of`."""
    return Failure(
        reason=row[0],
        type=row[1],
        message=row[2],
        traceback=row[3],
        fingerprint=row[4],
        title=row[5],
        retryable=bool(row[6]),
        epoch=row[7],
        attempt=row[8],
        at=row[9],
        duration=row[10],
        step=row[11],
        host=row[12],
        process=row[13],
        release=row[14],
        worker=row[15],
        cause=row[16],
        truncated=bool(row[17]),
        frame=row[18],
        plain=row[19],
        plain_title=row[20],
    )


def entry_of(row: Row) -> Entry:
    """An entry from the columns of `entries`."""
    seq, at, event, job, task, queue, epoch, attempt, reason, worker, actor, text = row
    return Entry(
        seq=seq,
        at=at,
        event=event,
        job=spelled(job) if job is not None else None,
        task=task,
        queue=queue,
        epoch=epoch,
        attempt=attempt,
        reason=reason,
        worker=worker,
        actor=actor,
        text=text,
    )
