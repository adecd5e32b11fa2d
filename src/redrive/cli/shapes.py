"""What the store knows, as JSON people query: times as ISO 8601 in UTC, durations in seconds, texts as texts."""

from typing import Any

from redrive.clock import SECOND, iso
from redrive.errors import BadPayload
from redrive.job import Job, decode, decode_headers
from redrive.letter import Failure, Group, Letter, Note, Replaced
from redrive.limits import attempts_of
from redrive.store import Depth, Entry, Finished, Gate, Listed, Record, Worker

Shape = dict[str, Any]


def of_listed(row: Listed) -> Shape:
    """A line of `jobs list`."""
    return {
        "id": row.id,
        "state": row.state,
        "task": row.task,
        "queue": row.queue,
        "priority": row.priority,
        "attempts": row.attempts,
        "epoch": row.epoch,
        "at": _time(row.at),
        "error": row.error,
    }


def of_record(record: Record) -> Shape:
    """Everything about a job; what does not apply is left out."""
    shape = _of_job(record.job) if record.job else _of_finished(record.finished) if record.finished else {}
    shape |= {
        "worker": record.worker,
        "lease_left": None if record.lease_left is None else record.lease_left / SECOND,
        "unknown_since": _time(record.unknown_since),
        "ended_at": shape.get("ended_at") or _time(record.ended_at),
        "end_reason": record.end_reason,
        "failures": [of_failure(failure) for failure in record.failures],
    }
    return {name: value for name, value in shape.items() if value is not None}


def _of_job(job: Job) -> Shape:
    return {
        "id": job.id,
        "state": job.state,
        "task": job.task,
        "queue": job.queue,
        "priority": job.priority,
        "due_at": _time(job.due_at),
        "created_at": _time(job.created_at),
        "expires": _time(job.expires),
        "attempts": job.attempts,
        "max_attempts": attempts_of(job),
        "starts": job.starts,
        "crashes": job.crashes,
        "losses": job.losses,
        "epoch": job.epoch,
        "key": job.key,
        "external_id": job.external_id,
        "batch": job.batch,
        "parent": job.parent,
        "needs": list(job.needs) or None,
        "release": job.release,
        "headers": decode_headers(job.headers) or None,
        "payload": json_in(job.payload),
    }


def _of_finished(row: Finished) -> Shape:
    return {
        "id": row.id,
        "state": "done",
        "task": row.task,
        "queue": row.queue,
        "attempts": row.attempts,
        "epoch": row.epoch,
        "key": row.key,
        "duration": row.duration / SECOND,
        "ended_at": iso(row.ended_at),
        "result": json_in(row.result) if row.result is not None else None,
    }


def json_in(text: bytes) -> Any:
    """The value behind the bytes; bytes that are none are shown as the text they hold."""
    try:
        return decode(text)
    except BadPayload:
        return text.decode(errors="replace")


def of_failure(failure: Failure) -> Shape:
    """One failed attempt."""
    shape: Shape = {
        "attempt": failure.attempt,
        "epoch": failure.epoch,
        "at": _time(failure.at),
        "reason": failure.reason,
        "type": failure.type,
        "message": failure.message,
        "cause": failure.cause,
        "step": failure.step,
        "retryable": failure.retryable,
        "duration": failure.duration / SECOND,
        "host": failure.host,
        "process": failure.process or None,
        "worker": failure.worker,
        "release": failure.release,
        "fingerprint": failure.fingerprint,
        "title": failure.title,
        "frame": failure.frame,
        "plain_fingerprint": failure.plain,
        "plain_title": failure.plain_title,
        "truncated": failure.truncated or None,
        "traceback": failure.traceback,
    }
    return {name: value for name, value in shape.items() if value not in (None, "")}


def of_letter(letter: Letter) -> Shape:
    """A line of `dlq list`, or with payload and failures the whole of `dlq show`."""
    shape: Shape = {
        "id": letter.id,
        "state": letter.state,
        "task": letter.task,
        "queue": letter.queue,
        "priority": letter.priority,
        "reason": letter.reason,
        "type": letter.type,
        "message": letter.message,
        "group": letter.group,
        "attempts": letter.attempts,
        "epochs": letter.epochs,
        "first_failed_at": _time(letter.first_failed_at),
        "failed_at": _time(letter.failed_at),
        "host": letter.host,
        "worker": letter.worker,
        "release": letter.release,
        "version": letter.version,
        "owner": letter.owner,
        "review": letter.review,
        "returns": letter.returns or None,
        "rule": letter.rule,
        "workflow": letter.workflow,
        "headers": decode_headers(letter.headers) or None,
        "payload": None if letter.payload is None else json_in(letter.payload),
        "payload_version": letter.payload_version if letter.replaced else None,
        "replaced": [_of_replaced(one) for one in letter.replaced] or None,
        "notes": [of_note(note) for note in letter.notes] or None,
        "failures": [of_failure(failure) for failure in letter.failures] or None,
    }
    return {name: value for name, value in shape.items() if value is not None}


def _of_replaced(one: Replaced) -> Shape:
    """A payload that somebody has edited."""
    return {"version": one.version, "payload": json_in(one.payload), "replaced_at": iso(one.at), "actor": one.actor}


def of_note(note: Note) -> Shape:
    """What somebody wrote."""
    return {"at": iso(note.at), "actor": note.actor, "text": note.text, "on": "group" if note.group else "letter"}


def of_group(group: Group) -> Shape:
    """A line of `dlq groups`, or with notes the whole of `dlq show group:…`."""
    shape: Shape = {
        "group": group.fingerprint,
        "letters": group.count,
        "state": group.state,
        "task": group.task,
        "reason": group.reason,
        "type": group.type,
        "title": group.title,
        "first_seen": _time(group.first_seen),
        "last_seen": _time(group.last_seen),
        "sample": group.sample,
        "owner": group.owner,
        "muted_until": _time(group.muted_until),
        "closed_in": group.closed_in,
        "notes": [of_note(note) for note in group.notes] or None,
    }
    return {name: value for name, value in shape.items() if value is not None}


def of_worker(worker: Worker) -> Shape:
    """A line of `workers list`."""
    return {
        "id": worker.id,
        "host": worker.host,
        "pid": worker.pid,
        "state": "draining" if worker.order == "drain" else worker.state,
        "slots": worker.slots,
        "running": list(worker.running),
        "stuck": worker.stuck,
        "queues": list(worker.queues),
        "tasks": list(worker.tasks),
        "release": worker.release,
        "started_at": _time(worker.started_at),
        "beat_at": _time(worker.beat_at),
    }


def of_queue(depth: Depth, gate: Gate | None, workers: int, now: int) -> Shape:
    """A line of `queues list`."""
    paused = paused_by(gate, now)
    return {
        "queue": depth.queue,
        "ready": depth.ready,
        "scheduled": depth.scheduled,
        "leased": depth.leased,
        "dead": depth.dead,
        "oldest_age": None if depth.oldest_ready is None else max(0, now - depth.oldest_ready) / SECOND,
        "workers": workers,
        "paused": paused is not None,
        "paused_until": _time(paused.until) if paused else None,
        "paused_by": paused.actor if paused else None,
        "reason": paused.reason if paused else None,
        "depth_limit": gate.depth_limit if gate else None,
    }


def paused_by(gate: Gate | None, now: int) -> Gate | None:
    """The gate if it holds jobs back now."""
    closed = gate is not None and gate.state == "closed" and (gate.until is None or gate.until > now)
    return gate if closed else None


def of_entry(entry: Entry) -> Shape:
    """A line of `events`."""
    shape: Shape = {
        "seq": entry.seq,
        "at": iso(entry.at),
        "event": entry.event,
        "job": entry.job,
        "task": entry.task,
        "queue": entry.queue,
        "epoch": entry.epoch,
        "attempt": entry.attempt,
        "reason": entry.reason,
        "worker": entry.worker,
        "actor": entry.actor,
        "text": entry.text,
    }
    return {name: value for name, value in shape.items() if value is not None}


def _time(at: int | None) -> str | None:
    return iso(at) if at else None
