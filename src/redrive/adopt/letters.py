"""Records of other systems as dead jobs with their letters: what is missing is completed, what is wrong is said."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid5

import msgspec

from redrive.adopt.keys import ABSENT, Keys
from redrive.adopt.parts import cause_of, decoded_or, duration_in, is_uuid, kind_of, spelled, told_by_trace, uuid_in
from redrive.adopt.reading import Record
from redrive.autopsy import minimal
from redrive.errors import RedriveError, UsageError
from redrive.fingerprint import fingerprint
from redrive.job import Job, State, encode, name_of, priority_of
from redrive.letter import Failure
from redrive.limits import Limits, encode_limits
from redrive.reasons import RETRYABLE, reason_named, reason_told
from redrive.redact import shortened
from redrive.store import Foreign

NAMESPACE = UUID("6f1d2b3c-3e0a-5c55-9d0e-52647276a0d7")
"""Ids that are no UUIDs become UUIDs of this namespace, so that the same record is known again."""

TRACEBACK_LIMIT = 128 * 1024
HISTORY_LIMIT = 10_000
LEFTOVER = "imported"
"""The header that keeps what has no place in a letter."""

_OWN = ("id", "task", "group", "epochs", "failed_at")
_DEAD = {"", "open", "dead", "failed", "failure", "fail", "error", "errored", "buried", "exhausted", "rejected", "dlq"}
_SIGNS = ("message", "error", "traceback", "history", "signature", "failed_at", "payload")


class NotDead(Exception):
    """The record is of a job that did not fail, or that lives again."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """How letters shall be made of records."""

    now: int
    payload_limit: int
    task: str | None = None  # of records that name none
    queue: str | None = None  # of all
    names: Mapping[str, str] = {}  # other names for tasks


def letter_of(record: Record, wanted: Wanted) -> Foreign:
    """The dead job that a record tells of; raises `NotDead`, or one of `Fault` that says what is wrong."""
    keys = Keys(record.value, absent=ABSENT if record.cells else ())
    own = keys.has(*_OWN)
    if own and record.cells:
        keys = Keys({name: unquoted(value) for name, value in record.value.items()}, absent=("",))
    if not own and not any(keys.get(field) is not None for field in _SIGNS):
        raise ValueError(f"it has none of the keys of a failed job; it has {_some(record.value)}")
    _check_state(keys)
    return (_Own if own else _Stranger)(record, keys, wanted).letter()


def unquoted(cell: str) -> str:
    """A cell without the ' that was put before what a spreadsheet would take for a formula."""
    return cell[1:] if cell.startswith("'") and cell.lstrip("'").startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def _check_state(keys: Keys) -> None:
    state = keys.text("status") or ""
    if state.strip().casefold() not in _DEAD:
        raise NotDead(shortened(state.strip(), 40))


def _some(record: Mapping[str, Any]) -> str:
    names = ", ".join(shortened(name, 30) for name in list(record)[:5])
    return f"{names}{', …' if len(record) > 5 else ''}" if names else "none"


class _Stranger:
    """A letter out of a record of another system."""

    def __init__(self, record: Record, keys: Keys, wanted: Wanted) -> None:
        self._record = record
        self._keys = keys
        self._wanted = wanted
        self._given = keys.text("task") or keys.text_of("type")
        self._workflow = record.workflow or keys.text("workflow")

    def letter(self) -> Foreign:
        """The dead job with its failures."""
        job = self._job()
        failures = self._failures(job)
        known = [self._keys.time("first_failed_at"), self._keys.time("created_at"), failures[0].at]
        first = next(at for at in known if at is not None)
        job = msgspec.structs.replace(job, headers=self._headers(), created_at=self._keys.time("created_at") or 0)
        review, first = self._review_told(), min(first, failures[-1].at)
        return Foreign(job=job, failures=failures, first_failed_at=first, review=review)

    # the job --------------------------------------------------------------------------------------------------------

    def _job(self) -> Job:
        keys, wanted = self._keys, self._wanted
        id, external = self._ids()
        most = keys.number("max_attempts")
        history = keys.get("history")
        known = len(history) if isinstance(history, list) else 1
        attempts = keys.number("attempts")
        return Job(
            id=id,
            task=self._task(),
            queue=name_of(wanted.queue or keys.text("queue") or "default"),
            payload=encode(self._payload(), limit=wanted.payload_limit),
            priority=self._priority(),
            state=State.DEAD,
            attempts=known if attempts is None else attempts,
            external_id=external,
            batch=self._workflow,
            item=external if keys.has("item_id") else None,
            policy=encode_limits(Limits(max_attempts=most)) if most else None,
        )

    def _ids(self) -> tuple[str, str | None]:
        """A UUID as it is; any other id becomes one, the same each time."""
        keys = self._keys
        kind, scope = ("item", self._workflow) if keys.has("item_id") else ("job", self._given)
        given = keys.text("item") if keys.has("item_id") else keys.text("id")
        given = self._uuid_beside() or given or self._record.stem or keys.text("external_id")
        if given is None:
            raw = msgspec.json.encode(self._record.value, order="deterministic").decode()
            return str(uuid5(NAMESPACE, f"record\0{raw}")), None
        if is_uuid(given.strip()):
            return str(UUID(given.strip())), None
        external = name_of(given)
        return str(uuid5(NAMESPACE, "\0".join((kind, scope or "", external)))), external

    def _uuid_beside(self) -> str | None:
        """A table may number its rows and give each a UUID too."""
        beside = self._keys.text_of("uuid")
        return beside if beside is not None and is_uuid(beside) else None

    def _task(self) -> str:
        name = self._given or self._wanted.task
        if name is None:
            raise ValueError("it names no task; say which one with --task NAME")
        return name_of(self._wanted.names.get(name, name))

    def _payload(self) -> Any:
        """What the job was given; a text of JSON in a table or beside a job's id is taken for what it holds."""
        value = self._keys.get("payload")
        if value is None:
            return {}
        if not isinstance(value, str) or (self._keys.has("item_id") and not self._record.cells):
            return value
        try:
            inner = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return value
        return inner if self._record.cells or isinstance(inner, dict | list) else value

    def _priority(self) -> int:
        value = self._keys.get("priority")
        try:
            return 5 if value is None else priority_of(value)
        except UsageError:
            self._keys.put_back("priority")
            return 5

    def _headers(self) -> bytes | None:
        headers = self._keys.get("headers")
        if isinstance(headers, str):
            headers = decoded_or(headers)
        found = {str(name): spelled(value) for name, value in headers.items()} if isinstance(headers, dict) else {}
        if headers is not None and not isinstance(headers, dict):
            self._keys.put_back("headers")
        rest = self._keys.rest()
        if rest:
            found[LEFTOVER] = spelled(rest)
        return encode(found, limit=self._wanted.payload_limit, what="what is left of the record") if found else None

    # the failures ---------------------------------------------------------------------------------------------------

    def _failures(self, job: Job) -> tuple[Failure, ...]:
        at = self._failed_at()
        found = [self._failure(Keys(each), job, number, at) for number, each in enumerate(self._history(), 1)]
        found.sort(key=lambda failure: failure.at)
        if not found:
            found = [self._failure(self._keys, job, job.attempts, at)]
        if self._review_told() is not None:
            found[-1] = msgspec.structs.replace(found[-1], retryable=False)
        return tuple(found)

    def _history(self) -> list[dict[str, Any]]:
        """The failures that are told one by one; a bare text is what one said."""
        history = self._keys.get("history")
        if isinstance(history, str):
            history = decoded_or(history)
        if not isinstance(history, list):
            self._keys.put_back("history")
            return []
        if len(history) > HISTORY_LIMIT:
            raise ValueError(f"it has {len(history):,} failures, and {HISTORY_LIMIT:,} are the limit")
        return [each if isinstance(each, dict) else {"message": each} for each in history]

    def _failed_at(self) -> int:
        times = (self._keys.time(name) for name in ("failed_at", "first_failed_at", "created_at"))
        return next((at for at in times if at is not None), self._wanted.now)

    def _review_told(self) -> str | None:
        """Why a person is needed, as the record says; it stays among what is left of it too."""
        held, free = self._keys.truth("review"), self._keys.truth("eligible")
        for field in ("eligible", "review"):
            self._keys.put_back(field)
        if held:
            return "it was imported with manual_review_required"
        return "it was imported with reprocess_eligible = false" if free is False else None

    def _failure(self, keys: Keys, job: Job, number: int, at: int) -> Failure:
        type, detail = kind_of(keys.get("error") or keys.bare("type"))
        message, trace = keys.text("message"), keys.text("traceback")
        if type is None and message is None:
            type, message = self._told_by_signature()
        named, said = told_by_trace(trace)
        message = message if message is not None else said
        type = type or named or "Error"
        reason = keys.text("reason")
        spent = keys.number("attempt")
        failure = minimal(
            reason_named(reason) if reason else reason_told(type, message),
            type,
            message,
            job=job,
            at=keys.time("failed_at") or at,
            duration=duration_in(keys),
            host=keys.text("host") or "",
            worker=keys.text("worker") or "",
            release=keys.text("release"),
            step=keys.text("step"),
            cause=cause_of(keys, detail),
        )
        trace = None if trace is None else shortened(trace, TRACEBACK_LIMIT)
        return msgspec.structs.replace(failure, attempt=number if spent is None else spent, traceback=trace)

    def _told_by_signature(self) -> tuple[str | None, str | None]:
        """`ValidationFailed::schema` is a type and the beginning of a message."""
        signature = self._keys.text("signature")
        if signature is None:
            return None, None
        type, separator, message = signature.partition("::")
        return (type or None, message) if separator else (None, signature)


class _Own(_Stranger):
    """A letter out of our own export: everything that it shows is kept."""

    def letter(self) -> Foreign:
        keys, wanted = self._keys, self._wanted
        id = keys.text("id") or ""
        task = keys.text("task") or ""
        payload = self._own_payload()
        epoch = keys.number("epochs") or 1
        job = Job(
            id=uuid_in(id),
            task=name_of(wanted.names.get(task, task)),
            queue=name_of(wanted.queue or keys.text("queue")),
            payload=encode(payload, limit=wanted.payload_limit),
            priority=priority_of(keys.get("priority")),
            state=State.DEAD,
            attempts=keys.number("attempts") or 0,
            epoch=epoch,
            batch=keys.text("workflow"),
            headers=self._own_headers(),
        )
        failures = self._own_failures(job)
        first = keys.time("first_failed_at") or failures[0].at
        return Foreign(
            job=job,
            failures=failures,
            first_failed_at=first,
            version=keys.whole("version", 1),
            review=keys.text("review"),
            returns=keys.whole("returns", 0),
            rule=keys.text_of("rule"),
        )

    def _own_payload(self) -> Any:
        """Null is not written; a letter of a list has none at all."""
        keys = self._keys
        if not keys.has("payload") and not keys.has("failures"):
            raise ValueError("it has no payload; `redrive dlq export` writes one, `redrive dlq list` does not")
        value = keys.bare("payload")
        return decoded_or(value) if self._record.cells and isinstance(value, str) else value

    def _own_headers(self) -> bytes | None:
        headers = self._keys.get("headers")
        if isinstance(headers, str):
            headers = decoded_or(headers)
        return encode({name: str(value) for name, value in headers.items()}) if isinstance(headers, dict) else None

    def _own_failures(self, job: Job) -> tuple[Failure, ...]:
        history = self._keys.get("history")
        entries = [Keys(each) for each in history if isinstance(each, dict)] if isinstance(history, list) else []
        found = [self._own_failure(keys, keys.text_of("fingerprint"), job) for keys in entries]
        return tuple(found) or (self._own_failure(self._keys, self._keys.text("group"), job),)

    def _own_failure(self, keys: Keys, group: str | None, job: Job) -> Failure:
        type, message = keys.text_of("type") or "", keys.text("message") or ""
        reason = keys.text("reason") or "unknown"
        own_group, title = fingerprint(job.task, type, "", message)
        attempt, epoch = keys.number("attempt"), keys.get("epoch")
        return Failure(
            reason=reason,
            type=type,
            message=message,
            traceback=keys.text("traceback"),
            fingerprint=group or own_group,
            title=keys.text_of("title") or title,
            retryable=RETRYABLE.get(reason, True) if not isinstance(heals := keys.bare("retryable"), bool) else heals,
            epoch=epoch if isinstance(epoch, int) else job.epoch,
            attempt=job.attempts if attempt is None else attempt,
            at=keys.time("failed_at") or self._failed_at(),
            duration=duration_in(keys),
            host=keys.text("host") or "",
            release=keys.text("release"),
            worker=keys.text("worker") or "",
            cause=keys.text("cause"),
            step=keys.text_of("step"),
            process=keys.whole("process", 0),
            frame=keys.text_of("frame") or "",
            plain=keys.text_of("plain_fingerprint") or "",
            plain_title=keys.text_of("plain_title") or "",
            truncated=keys.bare("truncated") is True,
        )


Fault = (ValueError, RedriveError)
"""What `letter_of` raises of a record that is wrong."""
