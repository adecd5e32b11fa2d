"""An exception becomes a record, and this cannot fail: whatever its text, its chain or its size, something is kept.

Frames are walked here and their lines remembered per place in the code, because formatting a traceback anew costs more
than the attempt. Locals are never looked at.
"""

import linecache
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

import msgspec

from redrive.evidence import class_path, essence, is_a, leaves, look, members
from redrive.fingerprint import fingerprint
from redrive.job import Job
from redrive.letter import Failure
from redrive.reasons import RETRYABLE, Verdict
from redrive.redact import class_name, said, shortened, wellformed

MESSAGE_LIMIT = 8 * 1024
TRACEBACK_LIMIT = 32 * 1024
TYPE_LIMIT = 200
FRAMES_FIRST = 15
FRAMES_LAST = 25
EXCEPTIONS_LIMIT = 24
"""So many exceptions of a chain or group are written out."""

DEEPEST_INDENT = 40
KINDS_LIMIT = 5

# Past properties of the same name in somebody's class.
_traceback = BaseException.__dict__["__traceback__"].__get__
_cause_of = BaseException.__dict__["__cause__"].__get__
_context_of = BaseException.__dict__["__context__"].__get__
_is_suppressed = BaseException.__dict__["__suppress_context__"].__get__

_OURS = f"{Path(__file__).parent}/"
_LIBRARY = tuple({f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib")})
_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"


def examine(
    error: BaseException,
    *,
    verdict: Verdict,
    job: Job,
    at: int,
    task: str | None = None,
    duration: int = 0,
    host: str = "",
    process: int = 0,
    worker: str = "",
    release: str | None = None,
    step: str | None = None,
    cause: str | None = None,
) -> Failure:
    """The record of an attempt that raised."""
    try:
        found = _found(error)
    except BaseException as second:  # noqa: BLE001  the failure path cannot fail: at worst a minimal row
        found = _Found(class_path(error), f"(could not be examined: {class_name(second)})", None, "", True)
    failure = minimal(
        verdict.reason,
        found.type,
        found.message,
        job=job,
        at=at,
        task=task,
        duration=duration,
        host=host,
        process=process,
        worker=worker,
        release=release,
        step=step,
        cause=cause,
        retryable=verdict.retryable,
        frame=found.frame,
    )
    return msgspec.structs.replace(failure, traceback=found.traceback, truncated=failure.truncated or found.truncated)


def minimal(
    reason: str,
    type: str,
    message: str,
    *,
    job: Job,
    at: int,
    task: str | None = None,
    duration: int = 0,
    host: str = "",
    process: int = 0,
    worker: str = "",
    release: str | None = None,
    step: str | None = None,
    cause: str | None = None,
    retryable: bool | None = None,
    frame: str = "",
) -> Failure:
    """The record of a failure without an exception: the process died, the lease ended, nobody knows the task."""
    kind = shortened(type, TYPE_LIMIT)
    group, title = fingerprint(task or job.task, kind, frame, wellformed(str.__getitem__(message, slice(0, 4096))))
    return Failure(
        reason=reason,
        type=kind,
        message=shortened(message, MESSAGE_LIMIT),
        fingerprint=group,
        title=title,
        retryable=RETRYABLE.get(reason, True) if retryable is None else retryable,
        epoch=job.epoch,
        attempt=job.attempts + 1,
        at=at,
        duration=duration,
        step=step,
        host=host,
        process=process,
        release=release,
        worker=worker,
        cause=None if cause is None else shortened(cause, MESSAGE_LIMIT),
        truncated=len(message) > MESSAGE_LIMIT or len(cause or "") > MESSAGE_LIMIT,
        frame=frame,
    )


@dataclass(frozen=True, slots=True)
class _Found:
    type: str
    message: str
    traceback: str | None
    frame: str
    truncated: bool


def _found(error: BaseException) -> _Found:
    inner = essence(error)
    text = _Text()
    try:
        text.chain(error)
    except BaseException as second:  # noqa: BLE001  the rest of the record is worth more than its traceback
        text.add(f"(the traceback could not be read: {class_name(second)})\n")
        text.truncated = True
    return _Found(class_path(inner), _message(inner), "".join(text.parts), _user_frame(inner), text.truncated)


def _message(error: BaseException) -> str:
    """What it says; a group also says what it holds, because its own words are the same for every cause."""
    if not is_a(error, BaseExceptionGroup):
        return said(error)
    kinds = sorted({class_path(one) for one in leaves(error)})
    more = f", and {len(kinds) - KINDS_LIMIT} other types" if len(kinds) > KINDS_LIMIT else ""
    return f"{shortened(said(error), MESSAGE_LIMIT)}: {', '.join(kinds[:KINDS_LIMIT])}{more}"


@dataclass(slots=True)
class _Text:
    """A traceback as it is written, up to its limits."""

    parts: list[str] = field(default_factory=list)
    left: int = TRACEBACK_LIMIT
    exceptions: int = EXCEPTIONS_LIMIT
    seen: set[int] = field(default_factory=set)
    truncated: bool = False

    def add(self, text: str) -> None:
        if self.left <= 0:
            self.truncated = True
            return
        if len(text) > self.left:
            text = f"{text[: self.left]}…\n"
            self.truncated = True
        self.left -= len(text)
        self.parts.append(text)

    def chain(self, error: BaseException, indent: str = "") -> None:
        """The exception after those that led to it, oldest first."""
        links = list(islice(_links(error, self.seen), self.exceptions + 1))
        if len(links) > self.exceptions:
            _, joint = links.pop()
            self.truncated = True
            self.add(f"{indent}… earlier exceptions left out\n{_indented(joint, indent)}")
        for number, (one, joint) in enumerate(reversed(links)):
            self.one(one, indent)
            if number < len(links) - 1:
                self.add(_indented(joint, indent))

    def one(self, error: BaseException, indent: str) -> None:
        self.exceptions -= 1
        traceback = _traceback(error)
        if traceback is not None:
            self.add(f"{indent}Traceback (most recent call last):\n")
            for line in _frames(traceback):
                self.add(_indented(line, indent))
        self.add(_indented(_last_line(error), indent))
        if is_a(error, BaseExceptionGroup):
            self.members(error, f"{indent}    ")

    def members(self, group: BaseExceptionGroup[Any], indent: str) -> None:
        inside = members(group)
        shown = 0
        while shown < len(inside) and self.exceptions > 0 and self.left > 0 and len(indent) <= DEEPEST_INDENT:
            shown += 1
            self.add(f"{indent}---------------- {shown} of {len(inside)} ----------------\n")
            self.chain(inside[shown - 1], indent)
        if shown < len(inside):
            self.truncated = True
            self.add(f"{indent}… {len(inside) - shown} more exceptions\n")


def _links(error: BaseException, seen: set[int]) -> Iterator[tuple[BaseException, str]]:
    """The exception and those behind it, each with how it led to the one before; stops at a circle."""
    one: BaseException | None = error
    joint = ""
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one, joint
        cause = _cause_of(one)
        if cause is not None:
            one, joint = cause, _CAUSE
        else:
            one, joint = (None if _is_suppressed(one) else _context_of(one)), _CONTEXT


def _indented(text: str, indent: str) -> str:
    return "".join(f"{indent}{line}" for line in text.splitlines(keepends=True)) if indent else text


def _last_line(error: BaseException) -> str:
    name, message = class_path(error), shortened(said(error), 2048)
    notes = look(error, "__notes__")
    kept = notes[:8] if isinstance(notes, list) else []
    noted = "".join(f"{shortened(note, 512)}\n" for note in kept if isinstance(note, str))
    return f"{shortened(name, TYPE_LIMIT)}{': ' if message else ''}{message}\n{noted}"


def _frames(traceback: TracebackType) -> list[str]:
    """The lines of a traceback without our own frames at its top, a long middle left out."""
    places = _places(traceback)
    lines = [_line(code, number) for code, number in places[:FRAMES_FIRST]]
    rest = places[FRAMES_FIRST:]
    if len(rest) > FRAMES_LAST:
        lines.append(f"  … {len(rest) - FRAMES_LAST} frames left out\n")
    return lines + [_line(code, number) for code, number in rest[-FRAMES_LAST:]]


def _places(traceback: TracebackType) -> list[tuple[CodeType, int]]:
    places: list[tuple[CodeType, int]] = []
    one: TracebackType | None = traceback
    while one is not None:
        places.append((one.tb_frame.f_code, one.tb_lineno or 0))
        one = one.tb_next
    first = 0
    for index, (code, _) in enumerate(places):
        if not _foreign(code.co_filename):
            break
        if code.co_filename.startswith(_OURS):
            first = index + 1
    return places[first:] or places


@lru_cache(maxsize=4096)
def _line(code: CodeType, number: int) -> str:
    source = linecache.getline(code.co_filename, number).strip()[:300]
    place = f'  File "{code.co_filename}", line {number}, in {code.co_name}\n'
    return wellformed(f"{place}    {source}\n" if source else place)


@lru_cache(maxsize=4096)
def _foreign(filename: str) -> bool:
    """Whether code is not the user's own: ours, the standard library's, or an installed package's."""
    return (
        filename.startswith((_OURS, *_LIBRARY, "<frozen "))
        or "/site-packages/" in filename
        or "/dist-packages/" in filename
    )


def _user_frame(error: BaseException) -> str:
    """The last frame in the user's own code, else the last of all, as `module:function`: the same on every host."""
    found = ""
    one = _traceback(error)
    while one is not None:
        frame = one.tb_frame
        if not found or not _foreign(frame.f_code.co_filename):
            found = _spot(frame.f_code, frame.f_globals.get("__name__"))
        one = one.tb_next
    return found


def _spot(code: CodeType, module: object) -> str:
    known = isinstance(module, str) and module not in ("__main__", "__mp_main__")
    return wellformed(f"{module if known else Path(code.co_filename).stem}:{code.co_qualname}")[:400]
