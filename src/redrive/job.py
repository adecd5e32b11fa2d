"""A job: one unit of work, its options, its states, and how it is written."""

import os
import re
import threading
import time
from collections.abc import Iterable
from enum import StrEnum
from math import isfinite
from typing import Any

import msgspec

from redrive.errors import BadPayload, PayloadTooLarge, UsageError

WIRE_VERSION = 1
ENCODING_JSON = 0
PAYLOAD_LIMIT = 1024 * 1024
RESULT_LIMIT = 64 * 1024
NAME_LIMIT = 512
NAMES_LIMIT = 100
PRIORITIES = {"low": 2, "normal": 5, "high": 8}


_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class State(StrEnum):
    """Where a job is; one row, one state."""

    SCHEDULED = "scheduled"  # waits for its time
    READY = "ready"  # may be claimed
    LEASED = "leased"  # a worker holds the right to run it
    DONE = "done"  # finished; a narrow row remains for a while
    DEAD = "dead"  # given up on; its letter tells why
    DISCARDED = "discarded"  # ended on purpose, without success


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One unit of work as it travels and as the store keeps it."""

    id: str
    task: str
    payload: bytes
    queue: str = "default"
    priority: int = 5
    due_at: int = 0
    key: str | None = None
    external_id: str | None = None
    headers: bytes | None = None
    batch: str | None = None
    item: str | None = None
    parent: str | None = None
    redrive: str | None = None
    needs: tuple[str, ...] = ()
    expires: int | None = None
    release: str | None = None
    policy: bytes | None = None
    created_at: int = 0
    wire_version: int = WIRE_VERSION
    encoding: int = ENCODING_JSON
    state: State = State.READY
    epoch: int = 1
    epoch_at: int = 0
    payload_version: int = 1
    starts: int = 0
    attempts: int = 0
    crashes: int = 0
    losses: int = 0
    suspect: int = 0
    fence: int = 0

    @property
    def short(self) -> str:
        """The id as people read it: its last 8 hex digits (the first ones are the clock)."""
        return self.id[-8:]

    @property
    def idempotency_key(self) -> str:
        """The same across retries and redrives; another once the payload was edited."""
        return self.id if self.payload_version == 1 else f"{self.id}:v{self.payload_version}"


class _LastId(threading.local):
    tick = 0


_last = _LastId()


def new_id() -> str:
    """A UUIDv7: 48 bits of milliseconds, 12 of their fraction, 62 of chance; rising within a thread."""
    tick = time.time_ns() * 4096 // 1_000_000
    _last.tick = tick = max(tick, _last.tick + 1)
    digits = (
        f"{(tick >> 12) << 80 | 0x7 << 76 | (tick & 0xFFF) << 64 | 0x2 << 62 | int.from_bytes(os.urandom(8)) >> 2:032x}"
    )
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def priority_of(value: int | str) -> int:
    """A priority from 0 to 9, or one of its names."""
    number = PRIORITIES.get(value.strip().lower(), value) if isinstance(value, str) else value
    if isinstance(number, str) and number.isdecimal() and len(number) == 1:
        number = int(number)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= 9:
        raise UsageError(f"priority {value!r} is not one of low, normal, high or 0 to 9 (nine first)")
    return number


def _plain(value: object) -> object:
    """A text or number of a class of its own, such as a template's safe string, as what it is."""
    match value:
        case str():
            return str.__str__(value)
        case int():
            return int.__index__(value)
        case float():
            return float.__float__(value)
    raise TypeError(f"it holds an object of type {type(value).__name__}")


_encoder = msgspec.json.Encoder(enc_hook=_plain)


def encode(value: Any, *, limit: int = PAYLOAD_LIMIT, what: str = "the payload") -> bytes:
    """A JSON value as bytes, or one sentence about why it cannot be."""
    try:
        text = _encoder.encode(value)
        text.decode("utf-8")
        endless = b"null" in text and _holds_endless(value)  # which would be written as null
    except RecursionError:
        raise BadPayload(f"{what} is nested too deeply to be written as JSON; flatten it") from None
    except UnicodeError:
        raise BadPayload(
            f"{what} cannot be written as JSON: it holds half of a character (a lone surrogate); "
            "clean the text, as with text.encode(errors='replace').decode()"
        ) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise BadPayload(f"{what} cannot be written as JSON: {error}; pass only JSON values") from None
    if endless:
        raise BadPayload(f"{what} cannot be written as JSON: it holds NaN or an infinity; pass None or a text instead")
    check_size(text, limit, what)
    return text


def _holds_endless(value: object) -> bool:
    """Whether a number in it is NaN or infinite."""
    waiting = [msgspec.to_builtins(value, enc_hook=lambda one: None if isinstance(one, msgspec.Raw) else _plain(one))]
    while waiting:
        match waiting.pop():
            case float() as number if not isfinite(number):
                return True
            case dict() as table:
                waiting.extend(table.values())
            case list() | tuple() as row:
                waiting.extend(row)
    return False


def check_size(text: bytes, limit: int, what: str = "the payload") -> None:
    """Refuse what is over the limit."""
    if len(text) > limit:
        raise PayloadTooLarge(
            f"{what} has {len(text):,} bytes, over the limit of {limit:,}; store it elsewhere and pass a reference"
        )


def decode(text: bytes) -> Any:
    """The JSON value behind the bytes."""
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise BadPayload("the payload is nested too deeply to be read") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadPayload(f"the payload is not JSON in UTF-8: {error}") from None


def decode_headers(text: bytes | None) -> dict[str, str]:
    """The headers of a job, empty when it has none."""
    return msgspec.json.decode(text, type=dict[str, str]) if text else {}


def names(values: Iterable[str] | str) -> tuple[str, ...]:
    """One name or several, as a tuple."""
    several = (values,) if isinstance(values, str) else tuple(values)
    if len(several) > NAMES_LIMIT:
        raise ValueError(f"these are {len(several):,} names, and {NAMES_LIMIT} are the limit")
    for name in several:
        name_of(name)
    return several


def name_of(value: object) -> str:
    """A name as every store can keep it, or one sentence about why it is none."""
    if not isinstance(value, str) or not 1 <= len(value) <= NAME_LIMIT or _UNSTORABLE.search(value):
        raise ValueError(f"write a text of 1 to {NAME_LIMIT} characters, none of them a NUL or half of a character")
    return value
