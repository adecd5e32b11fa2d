"""A tape: fixed-size records that handlers and clients append, and that can be read whatever was killed whenever.

A record is one `write` to a file opened with O_APPEND, so that those of several processes never mix and stand in the
order in which they were written. A process that dies inside its write may leave the beginning of a record: the reader
steps over it and says so, and takes anything else for damage.
"""

import os
import struct
import time
import zlib
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple
from uuid import UUID


class What(IntEnum):
    """What a record says."""

    UNKNOWN = 1  # a client is about to add the job; until it learns more, the outcome is unknown
    ACCEPTED = 2  # the client was told that the job is durable
    REFUSED = 3  # the client was told that nothing was added
    STARTED = 4  # the handler began
    EFFECT = 5  # the handler did what it is for
    RETURNED = 6  # the handler came to its end without raising
    CANCELLED = 7  # the handler was stopped
    SETTLED = 8  # the worker was told that its completion is written
    LATE = 9  # the worker was told that its lease had passed on, and that nothing was changed


class Record(NamedTuple):
    """One line of the tape."""

    what: What
    job: str
    epoch: int = 0
    attempt: int = 0
    fence: int = 0
    pid: int = 0
    at: int = 0  # nanoseconds of the monotonic clock


class Reading(NamedTuple):
    """What stands on a tape, and the beginnings of records whose writers died."""

    records: tuple[Record, ...]
    torn: tuple[bytes, ...] = ()

    def of(self, *whats: What) -> list[Record]:
        """The records that say one of these."""
        return [record for record in self.records if record.what in whats]


class DamagedTape(Exception):
    """Bytes that no dying writer can have left."""


_MARK = b"TAPE"
_BODY = struct.Struct("<4sB3xIIQI16sQ")
_SUM = struct.Struct("<I")
SIZE = _BODY.size + _SUM.size


class Tape:
    """The end of a tape that is written to."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, what: What, job: str, *, epoch: int = 0, attempt: int = 0, fence: int = 0) -> None:
        """Append a record about this process."""
        record = Record(what, job, epoch, attempt, fence, os.getpid(), time.monotonic_ns())
        if os.write(self._file, packed(record)) != SIZE:
            raise OSError("the disk of the tape is full")

    def close(self) -> None:
        os.close(self._file)


def packed(record: Record) -> bytes:
    """A record as it stands on the tape."""
    what, job, epoch, attempt, fence, pid, at = record
    body = _BODY.pack(_MARK, what, epoch, attempt, fence, pid, UUID(job).bytes, at)
    return body + _SUM.pack(zlib.crc32(body))


def read(path: Path) -> Reading:
    """Everything on a tape, also while others write to it."""
    return parsed(path.read_bytes() if path.exists() else b"")


def parsed(data: bytes) -> Reading:
    """The records in these bytes, and what torn ones left between and behind them."""
    records: list[Record] = []
    torn: list[bytes] = []
    place = 0
    while place < len(data):
        record = _record(data[place : place + SIZE])
        if record is not None:
            records.append(record)
            place += SIZE
        else:
            torn.append(_torn(data, place))
            place += len(torn[-1])
    return Reading(tuple(records), tuple(torn))


def _record(data: bytes) -> Record | None:
    body, check = data[: _BODY.size], data[_BODY.size :]
    if len(data) < SIZE or not data.startswith(_MARK) or zlib.crc32(body) != _SUM.unpack(check)[0]:
        return None
    _, what, epoch, attempt, fence, pid, job, at = _BODY.unpack(body)
    return Record(What(what), str(UUID(bytes=job)), epoch, attempt, fence, pid, at)


def _torn(data: bytes, place: int) -> bytes:
    """What lies before the next record: less than a whole one, and begun like one."""
    begun = next(length for length in range(len(_MARK), -1, -1) if data.startswith(_MARK[:length], place))
    following = data.find(_MARK, place + 1) if begun == len(_MARK) else place + begun
    piece = data[place : len(data) if following < 0 else following]
    if not begun or len(piece) >= SIZE:
        raise DamagedTape(f"{len(piece)} bytes at {place} are neither a record nor the beginning of one: {piece!r}")
    return piece
