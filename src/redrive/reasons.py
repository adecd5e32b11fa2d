"""What a failure is: its reason, and whether time can heal it.

Asked in this order: the user's `classify=`, the user's rules, then the table below by exception type, HTTP status,
errno and message. A message may only make a failure retryable, except for a few clear sentences; permanent comes from
an exception type or a status.
"""

import errno
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from redrive.errors import Bury, ConfigError, RetryAfter
from redrive.evidence import MESSAGE_LIMIT, Facts, essence, is_a, leaves, wish
from redrive.redact import class_name, shortened

RETRYABLE = {
    "timeout": True,
    "network": True,
    "unavailable": True,
    "rate_limited": True,
    "resource_exhausted": True,
    "command_failed": True,
    "lost": True,
    "crashed": True,
    "validation": False,
    "unauthorized": False,
    "unsupported": False,
    "unknown_task": False,
    "buried": False,
    "unknown": True,
}
"""Every reason, and whether a retry can heal it."""

ALIASES = {
    "timeout_error": "timeout",
    "timed_out": "timeout",
    "network_error": "network",
    "connection_error": "network",
    "service_unavailable": "unavailable",
    "rate_limit": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
    "too_many_requests": "rate_limited",
    "resource_error": "resource_exhausted",
    "out_of_memory": "resource_exhausted",
    "worker_lost": "lost",
    "crash": "crashed",
    "worker_crashed": "crashed",
    "validation_failed": "validation",
    "validation_error": "validation",
    "invalid_input": "validation",
    "permission_denied": "unauthorized",
    "forbidden": "unauthorized",
    "auth_error": "unauthorized",
    "not_supported": "unsupported",
    "unsupported_operation": "unsupported",
    "task_not_found": "unknown_task",
    "unknown_error": "unknown",
}
"""Words that people type for a reason; case, underscores and hyphens do not matter."""

_WORDS = {word.replace("_", ""): reason for word, reason in (ALIASES | {name: name for name in RETRYABLE}).items()}

_TYPES = {
    "timeout": "builtins.TimeoutError subprocess.TimeoutExpired httpx.TimeoutException requests.exceptions.Timeout "
    "urllib3.exceptions.TimeoutError redis.exceptions.TimeoutError",
    "network": "builtins.ConnectionError socket.gaierror socket.herror ssl.SSLError httpx.TransportError "
    "requests.exceptions.ConnectionError urllib3.exceptions.ProtocolError redis.exceptions.ConnectionError "
    "aiohttp.client_exceptions.ClientConnectionError botocore.exceptions.EndpointConnectionError",
    "unavailable": "redrive.errors.StoreUnavailable redrive.errors.QueueFull apsw.BusyError apsw.LockedError",
    "resource_exhausted": "builtins.MemoryError redrive.errors.StoreFull apsw.FullError",
    "command_failed": "subprocess.CalledProcessError",
    "validation": "pydantic_core._pydantic_core.ValidationError pydantic.error_wrappers.ValidationError "
    "pydantic.v1.error_wrappers.ValidationError msgspec.ValidationError jsonschema.exceptions.ValidationError "
    "redrive.errors.BadArguments redrive.errors.BadPayload redrive.errors.PayloadTooLarge",
    "unauthorized": "builtins.PermissionError",
    "unsupported": "builtins.NotImplementedError",
    "unknown_task": "redrive.errors.UnknownTask",
}
_BY_TYPE = {path: reason for reason, paths in _TYPES.items() for path in paths.split()}
_BY_STATUS = {
    400: "validation",
    422: "validation",
    401: "unauthorized",
    403: "unauthorized",
    408: "timeout",
    429: "rate_limited",
    502: "unavailable",
    503: "unavailable",
    504: "unavailable",
}
_ERRNOS = {
    "timeout": "ETIMEDOUT",
    "network": "ECONNRESET ECONNREFUSED ECONNABORTED EHOSTUNREACH EHOSTDOWN ENETUNREACH ENETDOWN ENETRESET EPIPE "
    "ENOTCONN ESHUTDOWN EADDRNOTAVAIL",
    "resource_exhausted": "ENOSPC EDQUOT EMFILE ENFILE ENOMEM ENOBUFS",
    "unavailable": "EBUSY EAGAIN",
}
_BY_ERRNO = {
    getattr(errno, name): reason for reason, names in _ERRNOS.items() for name in names.split() if hasattr(errno, name)
}
_HTTP = r"(?:^|\b(?:http|status|code|error)[\s:=/\d.]{1,12})"
_SENTENCES = {  # the three last are permanent: whoever could be healed by time has matched before
    "rate_limited": rf"\brate[-_ ]?limit|\bquota exceeded|\btoo many requests\b|\bthrottl(?:ed|ing)|{_HTTP}429\b",
    "timeout": r"\btimed[ -]?out\b|\btime-?out\b|\bdeadline exceeded\b",
    "resource_exhausted": r"\bout of memory\b|\bno space left\b|\btoo many open files\b|\bcan't start new thread\b"
    r"|\bENOSPC\b|\bEMFILE\b",
    "network": r"\bECONN(?:RESET|REFUSED|ABORTED)\b|\bconnection (?:was )?(?:reset|refused|aborted|closed|lost)\b"
    r"|\bnetwork (?:error|is unreachable|unreachable)|\bname resolution\b|\bname or service not known\b|\bDNS\b"
    r"|\bbroken pipe\b|\bno route to host\b|\bgetaddrinfo\b",
    "unavailable": r"\b(?:temporarily|service|currently) unavailable\b|\bbusy\b|\bdatabase is locked\b"
    r"|\b(?:provider|service)\b[^\n]{0,80}\bnot found\b|\bnot found\b[^\n]{0,80}\b(?:provider|service)\b"
    rf"|\bbad gateway\b|{_HTTP}50[234]\b",
    "validation": r"\bvalidation error|\binvalid input\b",
    "unauthorized": r"\bpermission denied\b|\bforbidden\b",
    "unsupported": r"\bunsupported\b|\bunknown operation\b",
}
_BY_MESSAGE = tuple((reason, re.compile(pattern, re.IGNORECASE)) for reason, pattern in _SENTENCES.items())


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a failure is; `retry_after` in microseconds is what the other side asked for."""

    reason: str
    retryable: bool
    retry_after: int | None = None
    note: str | None = None  # what went wrong while it was decided


Classifier = Callable[[BaseException], "str | Verdict | None"]


@dataclass(frozen=True, slots=True)
class Rule:
    """All that is given must fit: the type or one of its bases, words of the message, errno, HTTP status."""

    reason: str
    type: str | None = None
    message: str | None = None
    errno: int | None = None
    status: int | None = None
    retryable: bool | None = None

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ConfigError("a rule has an empty reason; give it one of the table, or your own word")
        if all(given in (None, "") for given in (self.type, self.message, self.errno, self.status)):
            raise ConfigError(f"the rule for {self.reason!r} matches nothing: give it type, message, errno or status")
        if not self.heals and self.type is None and self.status is None:
            raise ConfigError(
                f"the rule for {self.reason!r} would make failures permanent by message or errno alone: "
                "add `type` or `status`, or set retryable = true"
            )

    @property
    def heals(self) -> bool:
        """Whether what this rule recognises may be retried."""
        return RETRYABLE.get(self.reason, True) if self.retryable is None else self.retryable

    def fits(self, facts: Facts) -> bool:
        """Whether a failure is what this rule describes."""
        return (
            (self.type is None or facts.is_named(self.type))
            and (self.status is None or self.status == facts.status)
            and (self.errno is None or self.errno == facts.errno)
            and (self.message is None or self.message.lower() in facts.message.lower())
        )


@dataclass(frozen=True, slots=True)
class Rules:
    """A project's own rules; they are asked before the table."""

    own: tuple[Rule, ...] = ()


def classify(error: BaseException, rules: Rules, classify: Classifier | None = None, *, now: int = 0) -> Verdict:
    """The verdict on a failure: the user's `classify`, else the rules, else the table. Never raises.

    `now` (microseconds) is needed only for a Retry-After that is a date and comes without a Date header.
    """
    error = essence(error)
    if any(is_a(one, Bury) for one in leaves(error)):
        return Verdict("buried", retryable=False)
    answer, note = _ask(classify, error)
    verdict = answer or _judged(error, rules)
    signal = is_a(error, RetryAfter)
    retryable = signal or verdict.retryable
    asked = None if signal else verdict.retry_after
    if retryable and asked is None:
        asked = wish(error, now)
    return Verdict(verdict.reason, retryable, asked, note or verdict.note)


def reason_named(text: str) -> str:
    """The reason that a typed word means: `TIMEOUT`, `CommandFailed`, `validation-failed`; own reasons stay."""
    name = re.sub(r"[\s_-]+", "_", text.strip()).lower()
    return _WORDS.get(name.replace("_", ""), name)


def reason_told(type: str, message: str) -> str:
    """The reason of a failure of which only the name of its type and its message are known; else `unknown`."""
    if (named := reason_named(type)) in RETRYABLE:
        return named
    if type in _BY_TYPE or f"builtins.{type}" in _BY_TYPE:
        return _BY_TYPE.get(type) or _BY_TYPE[f"builtins.{type}"]
    return next((reason for reason, pattern in _BY_MESSAGE if pattern.search(message[:MESSAGE_LIMIT])), "unknown")


def rules_from(rows: Iterable[Mapping[str, Any]], where: str = "[[reasons]]") -> Rules:
    """The rules of a project file, or one sentence about the first that is wrong."""
    return Rules(tuple(_rule_from(row, f"{where} number {number}") for number, row in enumerate(rows, 1)))


_ROW = {"type": str, "message": str, "errno": int, "status": int, "reason": str, "retryable": bool}


def _rule_from(row: Mapping[str, Any], where: str) -> Rule:
    if not isinstance(row, Mapping):
        raise ConfigError(f"{where}: expected a table with {', '.join(_ROW)}")
    for key, value in row.items():
        expected = _ROW.get(key)
        if expected is None:
            raise ConfigError(f"{where}: unknown key {key!r}; use {', '.join(_ROW)}")
        if type(value) is not expected:
            raise ConfigError(f"{where}: {key} = {value!r} is not {_ARTICLES[expected]}")
    if "reason" not in row:
        raise ConfigError(f"{where}: it has no `reason`; add one of {', '.join(RETRYABLE)}, or your own word")
    reason = reason_named(row["reason"])
    if reason not in RETRYABLE and "retryable" not in row:
        near = get_close_matches(reason, RETRYABLE, 1)
        hint = f"did you mean {near[0]!r}? If not," if near else "for a reason of your own"
        raise ConfigError(
            f"{where}: unknown reason {row['reason']!r}; {hint} say whether it is retryable: retryable = true or false"
        )
    try:
        return Rule(**{**row, "reason": reason})
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


_ARTICLES = {str: "a text", int: "a whole number", bool: "true or false"}


def _ask(classify: Classifier | None, error: BaseException) -> tuple[Verdict | None, str | None]:
    if classify is None:
        return None, None
    try:
        answer = classify(error)
        if answer is None:
            return None, None
        if (verdict := _understood(answer)) is not None:
            return verdict, None
    except BaseException as second:  # noqa: BLE001  user code; the failure it was asked about must still be recorded
        return None, f"classify= raised {class_name(second)}; the default was used"
    return None, f"classify= returned {class_name(answer)}, not a reason, a Verdict or None; the default was used"


def _understood(answer: object) -> Verdict | None:
    match answer:
        case Verdict(str(reason), bool(retryable), None | int() as asked, None | str() as note):
            asked = None if asked is None else max(0, asked)
        case str(reason):
            retryable, asked, note = RETRYABLE.get(_word(reason), True), None, None
        case _:
            return None
    reason = _word(reason)
    return Verdict(reason, retryable, asked, note) if reason else None


def _word(reason: str) -> str:
    return reason_named(shortened(reason, 100))


def _judged(error: BaseException, rules: Rules) -> Verdict:
    try:
        return _judge(error, rules)
    except BaseException as second:  # noqa: BLE001  an exception may lie about anything, even its class
        return Verdict("unknown", retryable=True, note=f"{class_name(second)} while it was looked at")


def _judge(error: BaseException, rules: Rules) -> Verdict:
    if is_a(error, BaseExceptionGroup):
        return _judge_group(error, rules)
    facts = Facts(error)
    for rule in rules.own:
        if rule.fits(facts):
            return Verdict(rule.reason, rule.heals)
    reason = _default(error, facts)
    return Verdict(reason, RETRYABLE[reason])


def _judge_group(group: BaseExceptionGroup[Any], rules: Rules) -> Verdict:
    """Several failures at once: their reason if they share it; retryable if any of them is."""
    verdicts = [_judge(one, rules) for one in leaves(group)]
    shared = {verdict.reason for verdict in verdicts}
    return Verdict(shared.pop() if len(shared) == 1 else "unknown", any(verdict.retryable for verdict in verdicts))


def _default(error: BaseException, facts: Facts) -> str:
    for name in facts.names:
        if name in _BY_TYPE:
            return _BY_TYPE[name]
    if facts.status in _BY_STATUS:
        return _BY_STATUS[facts.status]
    if is_a(error, OSError) and facts.errno in _BY_ERRNO:
        return _BY_ERRNO[facts.errno]
    for reason, pattern in _BY_MESSAGE:
        if pattern.search(facts.message):
            return reason
    return "unknown"
