"""Forks: what has files open or is being made stands still for that moment, so that a child inherits nothing of it."""

import os
import threading
from typing import Protocol
from weakref import WeakSet

making = threading.RLock()
"""Held while an engine is imported and a store is made: a child would find half of a module, and wait for the rest."""


class Forkable(Protocol):
    """A store that has to know of forks."""

    def pause(self) -> None:
        """Before this process forks: stand still, with nothing open that a child would inherit."""
        ...

    def resume(self) -> None:
        """After it: go on as if nothing had been."""
        ...

    def forked(self) -> None:
        """In the child: the threads and pipes are the parent's."""
        ...


_known: "WeakSet[Forkable]" = WeakSet()
_paused: list[Forkable] = []


def tell(store: Forkable) -> None:
    """Let a store know of every fork as long as it lives."""
    with making:
        _known.add(store)


def _before() -> None:
    making.acquire()
    _paused.extend(_known)
    for store in _paused:
        store.pause()


def _after_in_parent() -> None:
    while _paused:
        _paused.pop().resume()
    making.release()


def _after_in_child() -> None:
    while _paused:
        _paused.pop().forked()
    making.release()


os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
