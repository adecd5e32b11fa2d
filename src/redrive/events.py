"""What the flow tells its subscribers, after the fact: logging, users' hooks, later metrics and traces.

Core code never logs: it emits an event. A subscriber that is slow or raises never touches a job.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from redrive.job import Job


class Kind:
    """What an event means, and the names of its fields."""

    def __init__(self, meaning: str, fields: str = "") -> None:
        self.meaning = meaning
        self.fields = tuple(fields.split())


EVENTS = {
    "job.enqueued": Kind("a job was accepted"),
    "job.started": Kind("an attempt begins", "attempt limit"),
    "job.succeeded": Kind("the job is done", "attempt duration note"),
    "job.retried": Kind("an attempt failed and another will follow", "failure limit delay note"),
    "job.snoozed": Kind("the handler asked to be run later", "delay why"),
    "job.buried": Kind("the job was given up on and is a dead letter now", "failure limit why note"),
    "job.discarded": Kind("the job was ended on purpose without success", "reason why"),
    "job.released": Kind("the job was given back without spending an attempt", "delay why"),
    "job.late": Kind("an attempt ended after its lease was lost; nothing was changed"),
    "queue.unserved": Kind("a job was added to a queue that no worker serves", "queue"),
    "worker.started": Kind("a worker is ready to claim", "worker store_url durable queues slots tasks pid"),
    "worker.draining": Kind("a worker claims nothing more and finishes what it has", "worker running"),
    "worker.stopped": Kind("a worker has left", "worker done failed"),
    "worker.stuck": Kind("a handler outlived its deadline and keeps its slot", "worker stuck slots"),
    "worker.recycled": Kind("a worker ends because half its slots are stuck", "worker stuck"),
    "worker.fault": Kind("something in the worker itself went wrong; it goes on", "worker error"),
    "worker.lost": Kind("another worker of this host is gone; its jobs were taken over", "worker cause jobs"),
    "retention.announced": Kind(
        "a policy will remove open letters; told when it is new, and by each worker that sees to it", "what"
    ),
    "retention.applied": Kind("a policy has removed open letters", "letters of"),
    "rule.begun": Kind("a rule has begun a redrive of its letters", "rule redrive"),
    "rule.applied": Kind(
        "a rule has discarded letters, held them for review, or told of them in the journal", "rule action n"
    ),
    "rule.failed": Kind("a rule cannot be applied; the others go on", "rule error"),
    "store.unavailable": Kind("the store does not answer; the worker waits for it", "error"),
    "store.returned": Kind("the store answers again"),
}
"""Every event by name; the reference lists them from here."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; `fields` are those that the reference lists for its name."""

    name: str
    job: Job | None = None
    fields: dict[str, Any] = field(default_factory=dict)


Subscriber = Callable[[Event], None]


class Events:
    """Hands events to subscribers; what a subscriber raises is logged and goes no further."""

    def __init__(self) -> None:
        self._all: list[Subscriber] = []
        self._by_name: dict[str, list[Subscriber]] = {}

    def subscribe(self, subscriber: Subscriber, name: str | None = None) -> None:
        """Call `subscriber` for events of this name, or for all; once for each, however often it subscribes."""
        if subscriber in self._all:
            return
        if name is None:
            self.forget(subscriber)
        subscribers = self._all if name is None else self._by_name.setdefault(name, [])
        if subscriber not in subscribers:
            subscribers.append(subscriber)

    def forget(self, subscriber: Subscriber) -> None:
        """Tell this one nothing more."""
        for subscribers in (self._all, *self._by_name.values()):
            subscribers[:] = [other for other in subscribers if other != subscriber]
        self._by_name = {name: subscribers for name, subscribers in self._by_name.items() if subscribers}

    def silence(self) -> None:
        """Tell nobody anything: a child process leaves that to its parent."""
        self._all.clear()
        self._by_name.clear()

    def wanted(self, name: str) -> bool:
        """Whether anybody listens: who emits per job asks first."""
        return bool(self._all) or name in self._by_name

    def emit(self, name: str, job: Job | None = None, **fields: Any) -> None:
        """Tell every subscriber of this name."""
        if not self.wanted(name):
            return
        event = Event(name, job, fields)
        for subscriber in (*self._all, *self._by_name.get(name, ())):
            self._tell(subscriber, event)

    def _tell(self, subscriber: Subscriber, event: Event) -> None:
        try:
            subscriber(event)
        except Exception:
            logging.getLogger("redrive").exception("a subscriber of %s raised", event.name)


class Recorder:
    """A subscriber that remembers, for tests."""

    def __init__(self, keep: int = 10_000) -> None:
        self.events: deque[Event] = deque(maxlen=keep)

    def __call__(self, event: Event) -> None:
        self.events.append(event)
