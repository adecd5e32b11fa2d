"""Several worker processes under one small parent: started, watched, restarted, ended, and their deaths explained.

It imports no app and no store, so that nothing a handler does can reach it.
"""

import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from redrive.outcome import Crashed, Lost
from redrive.runners.death import cause_of_death
from redrive.runners.oom import oom_kills
from redrive.runners.parent import die_with_parent

SUPERVISED = "REDRIVE_SUPERVISED"
EXIT_RECYCLE = 75
"""A worker process that asks to be replaced ends with this code."""

_EXITS_AT_START = (2, 4)
_BACKOFF = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
_SETTLED_AFTER = 60.0
_GIVE_UP_AFTER = 12
_START_PATIENCE = 60.0
_TICK = 0.5
_MARGIN = 5.0
_LAST_WORDS = 5.0
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Death:
    """A worker process ended although nobody had told it to."""

    slot: int
    pid: int
    returncode: int
    outcome: Crashed | Lost
    sentence: str


def supervise(
    command: list[str],
    processes: int,
    *,
    grace: float,
    patience: float,
    report: Callable[[Death], None],
) -> int:
    """Keep that many worker processes alive until they are done or told to end; answers the exit code."""
    supervisor = _Supervisor(command, grace, patience, report)
    with _signals(supervisor.told):
        return supervisor.run(processes)


class _Worker:
    """One place for a worker process, and the process that now fills it."""

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.process: subprocess.Popen[bytes] | None = None
        self.channel: socket.socket | None = None
        self.finished = False
        self.said_hello = False
        self.silent = 0.0
        self.fault: str | None = None
        self.deaths = 0
        self.started_at = 0.0
        self.due_at = 0.0
        self.oom_before: int | None = None

    def start(self, command: list[str]) -> None:
        self.oom_before = oom_kills()
        self.said_hello, self.silent, self.fault = False, 0.0, None
        self.started_at = time.monotonic()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self.channel = ours
        with theirs:
            self.process = subprocess.Popen(  # noqa: S603 - our own command line
                command,
                env={**os.environ, SUPERVISED: f"{theirs.fileno()}:{os.getpid()}"},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def put_off(self, now: float) -> float:
        """Wait before the next start: not at all at first, then longer each time."""
        wait = _BACKOFF[min(self.deaths, len(_BACKOFF)) - 1]
        self.due_at = now + wait
        return wait

    @property
    def hopeless(self) -> bool:
        """Whether it has died again and again without ever getting ready."""
        return self.deaths >= _GIVE_UP_AFTER and not self.said_hello

    def listen(self) -> None:
        """Take the beats that have come."""
        with suppress(BlockingIOError, ConnectionError):
            while self.channel is not None and self.channel.recv(4096):
                self.said_hello, self.silent = True, 0.0

    def tell(self, number: int) -> None:
        if self.process is not None:
            self.process.send_signal(number)

    def buried(self) -> None:
        if self.channel is not None:
            self.channel.close()
        self.process = self.channel = None


class _Supervisor:
    def __init__(self, command: list[str], grace: float, patience: float, report: Callable[[Death], None]) -> None:
        self._command = command
        self._grace = grace
        self._patience = patience
        self._report = report
        self._workers: list[_Worker] = []
        self._wanted: list[int] = []
        self._stop_by = 0.0
        self._told: list[int] = []
        self._forced = 0
        self._code = 0

    def told(self, number: int) -> None:
        """A signal came; it is acted on in the loop."""
        self._wanted.append(number)

    def run(self, processes: int) -> int:
        self._workers = [_Worker(slot) for slot in range(processes)]
        try:
            with _doorbell() as ring:
                self._watch(ring)
        finally:
            self._kill_all()
        return 128 + self._forced if self._forced else self._code

    def _watch(self, ring: socket.socket) -> None:
        last = time.monotonic()
        while not all(worker.finished for worker in self._workers):
            self._rest(ring)
            now = time.monotonic()
            self._obey(now)
            for worker in self._workers:
                self._look_after(worker, now, min(now - last, 2 * _TICK))
            last = now

    def _rest(self, ring: socket.socket) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(ring, selectors.EVENT_READ)
            starts = [worker.due_at for worker in self._workers if worker.process is None and not worker.finished]
            soon = min((at - time.monotonic() for at in starts), default=_TICK)
            selector.select(max(0.0, min(soon, _TICK)))
        with suppress(BlockingIOError):
            while ring.recv(4096):
                pass

    # told to end -----------------------------------------------------------------------------------------------------

    def _obey(self, now: float) -> None:
        """The first signal drains the workers, the second has them leave at once, a third kills them."""
        while self._wanted:
            number = self._wanted.pop(0)
            match len(self._told):
                case 0:
                    self._pass_on(number, now + self._grace + _MARGIN)
                case 1:
                    self._forced = number
                    self._pass_on(number, now + _LAST_WORDS)
                case _:
                    self._kill_all()
        if self._told and now > self._stop_by:
            _say("the worker processes did not end in time; killing them now")
            self._forced = self._forced or signal.SIGTERM
            self._kill_all()

    def _pass_on(self, number: int, stop_by: float) -> None:
        passed = signal.SIGINT if number == signal.SIGINT else signal.SIGTERM
        self._stop_by = stop_by
        self._told.append(passed)
        for worker in self._workers:
            worker.finished = worker.process is None
            worker.tell(passed)

    def _kill_all(self) -> None:
        for worker in self._workers:
            worker.tell(signal.SIGKILL)
            if worker.process is not None:
                worker.process.wait()

    # one worker ------------------------------------------------------------------------------------------------------

    def _look_after(self, worker: _Worker, now: float, elapsed: float) -> None:
        if worker.finished:
            return
        if worker.process is None:
            if now >= worker.due_at:
                self._start(worker, now)
            return
        worker.listen()
        returncode = worker.process.poll()
        if returncode is None:
            self._mind_silence(worker, elapsed)
        else:
            worker.listen()
            self._ended(worker, worker.process.pid, returncode, now)

    def _start(self, worker: _Worker, now: float) -> None:
        try:
            worker.start(self._command)
        except OSError as error:
            worker.buried()
            worker.deaths += 1
            wait = worker.put_off(now)
            _say(f"a worker process could not be started: {error}; trying again in {wait:g}s")
            self._give_up_on(worker, now)

    def _mind_silence(self, worker: _Worker, elapsed: float) -> None:
        worker.silent += elapsed
        patience = self._patience if worker.said_hello else max(self._patience, _START_PATIENCE)
        if worker.silent > patience and worker.fault is None:
            worker.fault = f"silent for {worker.silent:.0f}s, perhaps in code that never lets go of the interpreter"
            worker.tell(signal.SIGKILL)

    def _ended(self, worker: _Worker, pid: int, returncode: int, now: float) -> None:
        worker.buried()
        if self._told or returncode == 0:
            worker.finished = True
            self._code = self._code or (0 if self._in_peace(returncode) else 1)
        elif returncode == EXIT_RECYCLE:
            worker.due_at = now
        elif returncode in _EXITS_AT_START and not worker.said_hello:
            self._end_with(returncode, now)
            worker.finished = True
        else:
            self._died(worker, pid, returncode, now)

    def _in_peace(self, returncode: int) -> bool:
        """Whether this is how a worker ends that was told to, also one that had not yet begun to listen."""
        told = [code for number in self._told for code in (128 + number, -number)]
        return returncode in (0, EXIT_RECYCLE, *told) or bool(self._forced)

    def _died(self, worker: _Worker, pid: int, returncode: int, now: float) -> None:
        settled = worker.said_hello and now - worker.started_at >= _SETTLED_AFTER
        worker.deaths = 1 if settled else worker.deaths + 1
        wait = worker.put_off(now)
        what_next = f"another starts in {wait:g}s" if wait else "another starts at once"
        if worker.hopeless:
            what_next = "giving up"
        outcome = cause_of_death(
            returncode, killed_by_us=worker.fault, oom_before=worker.oom_before, oom_after=oom_kills()
        )
        sentence = f"worker process {pid} died: {outcome.cause}; {what_next}"
        _say(sentence)
        self._tell(Death(worker.slot, pid, returncode, outcome, sentence))
        self._give_up_on(worker, now)

    def _tell(self, death: Death) -> None:
        try:
            self._report(death)
        except Exception as error:  # noqa: BLE001 - the workers that live are worth more than the note on one that died
            _say(f"its death could not be reported: {type(error).__name__}: {error}")

    def _give_up_on(self, worker: _Worker, now: float) -> None:
        if worker.hopeless:
            worker.finished = True
            self._end_with(1, now)

    def _end_with(self, code: int, now: float) -> None:
        self._code = self._code or code
        if not self._told:
            self._pass_on(signal.SIGTERM, now + self._grace + _MARGIN)


@contextmanager
def _signals(told: Callable[[int], None]) -> Iterator[None]:
    stopping = [number for number in _STOPPING if not ignored_hangup(number)]
    handlers = {number: signal.signal(number, lambda number, frame: told(number)) for number in stopping}
    handlers[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda number, frame: None)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def ignored_hangup(number: int) -> bool:
    """Whether this is the end of a terminal that we are to outlive, as `nohup` asks."""
    return number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN


@contextmanager
def _doorbell() -> Iterator[socket.socket]:
    """A socket that can be read as soon as a signal has come."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        try:
            yield ours
        finally:
            signal.set_wakeup_fd(before)


def _say(sentence: str) -> None:
    with suppress(OSError, ValueError):  # the terminal is gone, the workers are not
        print(f"redrive: {sentence}", file=sys.stderr, flush=True)


# the worker's side ----------------------------------------------------------------------------------------------------


def supervised_beat() -> Callable[[], None] | None:
    """For a worker process: what to call each second, or None without a supervisor; from now on it dies with it."""
    given = os.environ.pop(SUPERVISED, None)
    if given is None:
        return None
    file, _, parent = given.partition(":")
    channel = socket.socket(fileno=int(file))
    channel.set_inheritable(False)
    die_with_parent(int(parent))
    threading.Thread(target=_end_with_supervisor, args=(channel,), name="redrive-supervisor", daemon=True).start()

    def beat() -> None:
        with suppress(OSError):  # its end is noticed by the thread that listens
            channel.send(b".", socket.MSG_DONTWAIT)

    return beat


def _end_with_supervisor(channel: socket.socket) -> None:
    with suppress(OSError):
        while channel.recv(64):
            pass
    os._exit(1)
