"""Everything Redrive raises, and the four ways a handler speaks to it.

RedriveError                    exit code
├── UsageError                  2   what was typed or written in code is wrong
│   ├── ConfigError             2   a setting is wrong
│   ├── UnknownTask             2   no task of that name is registered here
│   ├── BadArguments            2   the arguments do not fit the task's signature
│   ├── BadPayload              2   the payload cannot be encoded
│   ├── PayloadTooLarge         2   the payload is over the limit
│   ├── WrongLoop               2   a synchronous call inside a running event loop
│   └── BadApp                  2   a module without an app, or with several
├── QueueFull                   1   the store refused the job before accepting it
├── NotFound                    5   no such job, queue or worker
├── Outdated                    1   the letter has changed since it was read
├── NotReady                    1   the job has no result yet
├── JobFailed                   1   the job whose result was asked for is dead or discarded
├── LeaseLost                   1   the right to run this job has passed to somebody else
└── StoreError                  4   the store cannot do what was asked
    ├── StoreUnavailable        4   it cannot be reached, or is busy beyond the limit
    ├── StoreFull               4   its disk is full
    ├── StoreReadOnly           4   it cannot be written
    ├── ForeignStore            4   the file or schema is not Redrive's
    └── NewerStore              4   a newer Redrive has changed it beyond what this one can read

Signal (what a handler raises on purpose)
├── RetryAfter                  try again after this long, and count the attempt
├── Snooze                      try again after this long, without spending an attempt
├── Discard                     this job is not worth doing: finish it without a letter
└── Bury                        no retry can heal this: make it a dead letter now
"""

from redrive.clock import Duration, micros


class RedriveError(Exception):
    """One sentence that says what is wrong, where, and what to do next."""

    exit_code = 1


class UsageError(RedriveError):
    """What was typed or written in code is wrong."""

    exit_code = 2


class ConfigError(UsageError):
    """A setting is wrong; the message names where it was written."""


class UnknownTask(UsageError):
    """No task of that name is registered here."""


class BadArguments(UsageError):
    """The arguments do not fit the task's signature."""


class BadPayload(UsageError):
    """The payload cannot be written as JSON."""


class PayloadTooLarge(UsageError):
    """The payload is over the limit."""


class WrongLoop(UsageError):
    """A synchronous call was made where only an asynchronous one can work."""


class BadApp(UsageError):
    """The module named has no app, or more than one."""


class QueueFull(RedriveError):
    """The store refused the job before accepting it; nothing was enqueued."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotFound(RedriveError):
    """There is no such job, queue or worker."""

    exit_code = 5


class Outdated(RedriveError):
    """The letter has changed since it was read; nothing was changed."""


class NotReady(RedriveError):
    """The job has no result yet."""


class JobFailed(RedriveError):
    """The job whose result was asked for is dead or discarded."""


class LeaseLost(RedriveError):
    """The right to run this job has passed to somebody else."""


class StoreError(RedriveError):
    """The store cannot do what was asked."""

    exit_code = 4


class StoreUnavailable(StoreError):
    """The store cannot be reached, or is busy beyond the limit."""


class StoreFull(StoreError):
    """The store's disk is full."""


class StoreReadOnly(StoreError):
    """The store cannot be written."""


class ForeignStore(StoreError):
    """The file or schema exists but is not Redrive's."""


class NewerStore(StoreError):
    """A newer Redrive has changed the store beyond what this one can read."""


class Signal(Exception):
    """What a handler raises to say how its attempt should end."""


class _Pause(Signal):
    def __init__(self, delay: Duration, message: str = "") -> None:
        self.delay = micros(delay)
        super().__init__(delay, message or f"{type(self).__name__} {delay}")  # both, so that it can be pickled

    def __str__(self) -> str:
        return str(self.args[1])


class RetryAfter(_Pause):
    """Try again after this long; the attempt counts."""


class Snooze(_Pause):
    """Try again after this long, without spending an attempt."""


class _Verdict(Signal):
    def __init__(self, message: str = "") -> None:
        self.message = message
        super().__init__(message)


class Discard(_Verdict):
    """This job is not worth doing: finish it without a letter."""


class Bury(_Verdict):
    """No retry can heal this: make it a dead letter now."""
