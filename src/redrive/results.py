"""What a handler returned, as the store keeps it: up to 64 KiB of JSON, or a note that says why it was not kept."""

from typing import Any

from redrive.errors import NotFound, RedriveError
from redrive.job import RESULT_LIMIT, decode, encode

NOT_KEPT = "redrive:result-not-kept"
"""The one key of the object that stands where a result could not be kept; its value says why."""


def kept(result: object) -> tuple[bytes | None, str | None]:
    """The result as bytes, and what went wrong with it: the job is done all the same."""
    if result is None:
        return None, None
    try:
        return encode(result, limit=RESULT_LIMIT, what="the result"), None
    except RedriveError as error:
        why = str(error)
    except Exception as error:  # noqa: BLE001 - a user's object that raises while it is looked at
        why = f"the result cannot be written as JSON: {type(error).__name__} was raised while it was tried"
    return encode({NOT_KEPT: why}), why


def opened(result: bytes | None, short: str) -> Any:
    """The result behind the bytes; NotFound when it was not kept."""
    value = decode(result) if result else None
    if isinstance(value, dict) and value.keys() == {NOT_KEPT}:
        raise NotFound(f"job {short} is done, but what it returned was not kept: {value[NOT_KEPT]}")
    return value
