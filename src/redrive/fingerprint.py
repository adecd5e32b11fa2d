"""Which failures have the same cause: task, exception type, the user's own frame, and the message without its details.

What differs from job to job (ids, numbers, paths, quoted values, addresses, times) is replaced; what tells causes apart
(words, host names, HTTP status, errno, exit codes) stays. Whether an id looks like a number, hex digits or a UUID, and
how many there are in a row, may differ from job to job too.
"""

import re
from functools import lru_cache
from hashlib import blake2b

MESSAGE_LIMIT = 1024
"""So much of a message takes part; what follows does not."""

TITLE_LIMIT = 160

_HEX = "[0-9a-fA-F]"
_DATE = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?)?(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)\b)?"
_CLOCK = r"\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?(?![\d:])"
_IPV4 = r"\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?![\w.]\w)"
_IPV6 = rf"(?:{_HEX}{{0,4}}:){{2,7}}{_HEX}{{0,4}}(?![\w:])"
_PART = r"[\w.@%+=~-]++"
_ABSOLUTE = rf"(?:~|\.\.?)?(?:/{_PART})+/?"
_RELATIVE = rf"[\w.-]{{1,255}}(?:(?:/{_PART}){{2,}}/?|/[\w@%+=~-]{{0,255}}\.{_PART})"  # I/O and and/or are none
_CODED = r"http(?:/\d(?:\.\d)?)?(?: error)?|status(?:[ _]code)?|exit (?:code|status)|errno|signal|code"
_DETAIL_PATTERNS = (
    rf"(?P<kept>\b(?:{_CODED})[ :=]{{0,3}}\d{{1,3}}(?![\w.]\w)|(?<!\w)['\"][1-5]\d\d [a-z][a-z -]{{1,40}}['\"])",
    rf"(?P<uuid>(?<!\w){_HEX}{{8}}-?(?:{_HEX}{{4}}-?){{3}}{_HEX}{{12}}(?!\w))",
    r"(?P<url>\b(?P<scheme>[a-z][a-z0-9+.-]{1,20}://)(?:[^\s/@\"'<>]{0,128}@)?(?P<host>[\w.-]*+)[^\s\"'<>]*+)",
    r"(?P<email>(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+)",
    rf"(?P<time>(?<![\d:])(?:{_DATE}|{_CLOCK}))",
    rf"(?P<ip>(?<![\w.:])(?:{_IPV4}|{_IPV6}))",
    r"(?P<text>(?<!\w)(?:\"[^\"]*+\"|'(?:[^'\\]|\\.|'(?=\w))*+'(?!\w)|`[^`]*+`|“[^”]*+”|«[^»]*+»))",
    rf"(?P<path>(?<![\w/.~-])(?:[A-Za-z]:\\[^\s:*?\"<>|]++|{_ABSOLUTE}|{_RELATIVE}))",
    rf"(?P<hex>\b0[xX]{_HEX}+\b|(?<!\w)(?=[a-fA-F]*\d)(?=\d*[a-fA-F]){_HEX}{{8,}}(?!\w))",
    r"(?P<n>(?<![\w.])[+-]?\d+(?:[.,]\d+)*(?:e[+-]?\d+)?(?:%|[A-Za-zµ]{1,3})?(?!\w))",
    r"(?P<id>(?<!\w)[^\W\d]*\d\w*+(?:-\w*\d\w*+)*)",
)
_DETAILS = re.compile("|".join(_DETAIL_PATTERNS), re.IGNORECASE)
_REPEATED = re.compile(r"(<\w{1,5}>)(?:[,;]?\s?\1)+")
_ANY_ID = re.compile(r"<(?:uuid|hex|id)>")
_DIGITS = re.compile(r"\d+")
_SPACES = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


def fingerprint(task: str, type: str, frame: str, message: str) -> tuple[str, str]:
    """The id of the group a failure belongs to, and a title for it that a person can read."""
    return _fingerprint(task, type, frame, message[:MESSAGE_LIMIT])


@lru_cache(maxsize=4096)
def _fingerprint(task: str, type: str, frame: str, message: str) -> tuple[str, str]:
    general = normalised(message)
    cause = _REPEATED.sub(r"\1", _ANY_ID.sub("<n>", general).replace("…", ""))
    identity = "\0".join((task, type, frame, cause)).encode("utf-8", "replace")
    title = f"{type}: {general}" if general else type
    if len(title) > TITLE_LIMIT:
        title = f"{title[: TITLE_LIMIT - 1]}…"
    return blake2b(identity, digest_size=8).hexdigest(), title


def normalised(message: str) -> str:
    """The message without what differs from job to job, on one line."""
    text = _SPACES.sub(" ", message[:MESSAGE_LIMIT]).strip()
    return _REPEATED.sub(r"\1…", _DETAILS.sub(_placeholder, text))


def _placeholder(match: re.Match[str]) -> str:
    match match.lastgroup:
        case "kept":
            return match[0]
        case "url":
            return f"{match['scheme']}{_DIGITS.sub('<n>', match['host'])}/…"
        case kind:
            return f"<{kind}>"
