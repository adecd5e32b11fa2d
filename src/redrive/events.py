"""What the flow tells its subscribers, after the fact: logging, users' hooks, later metrics and traces.

Core code never logs: it emits an event. A subscriber that is slow or raises never touches a job.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from redrive.job import Job

EVENTS = {
    "job.enqueued": "a job was accepted",
    "job.started": "an attempt begins",
    "job.succeeded": "the job is done",
    "job.retried": "an attempt failed and another will follow",
    "job.snoozed": "the handler asked to be run later",
    "job.buried": "the job was given up on and is a dead letter now",
    "job.discarded": "the job was ended on purpose without success",
    "job.released": "the job was given back without spending an attempt",
    "job.late": "an attempt ended after its lease was lost; nothing was changed",
    "queue.unserved": "a job was added to a queue that no worker serves",
    "worker.started": "a worker is ready to claim",
    "worker.draining": "a worker claims nothing more and finishes what it has",
    "worker.stopped": "a worker has left",
    "worker.stuck": "a handler outlived its deadline in a thread and keeps its slot",
    "worker.recycled": "a worker ends because half its slots are stuck",
    "worker.lost": "another worker of this host is gone; its jobs were taken over",
    "store.unavailable": "the store does not answer; the worker waits for it",
    "store.returned": "the store answers again",
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
        """Call `subscriber` for events of this name, or for all."""
        if name is None:
            self._all.append(subscriber)
        else:
            self._by_name.setdefault(name, []).append(subscriber)

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
