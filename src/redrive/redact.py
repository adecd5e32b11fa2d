"""What may be shown of texts and values: secrets masked, terminals safe, exceptions put into words without failing.

Keys that name a secret mask their whole value; texts are searched for what looks like one. Every pattern is linear in
the length of its text.
"""

import re
from collections.abc import Mapping
from typing import Any

MASK = "***"
DEPTH_LIMIT = 200
"""Values nested deeper than this are not shown."""

_TELLING = (
    "password|passwd|passphrase|secret(?!ar)|apikey|authorization|credential|privatekey|accesskey|signingkey"
    "|encryptionkey|cookie|connectionstring|token$|pwd$"
)
_SECRET_KEY = re.compile(
    rf"{_TELLING}|^(?:pw|pass|auth|bearer|jwt|sid|session|sessionid|csrf|otp|pin|cvv|cvc|ssn|dsn|tokens)$"
)
_SECRET_IN_TEXT = re.compile(_TELLING)  # `pass: 3` and `auth: failed` are no secrets in prose
_LONE = re.compile("[\ud800-\udfff\0]")
_NOT_WORD = re.compile(r"[^a-z0-9]")

_NAMED = re.compile(r"""(?<![\w-])([\w-]++)\\?["']?\s{0,3}[=:]\s{0,3}""")
_BARE_VALUE = r"""[^\s,;&"'(){}\[\]\\]++"""
_QUOTED = "|".join(rf"{quote}(?:[^{quote}\\]|\\.)*+(?:{quote}|\Z)" for quote in "\"'")
_QUOTED_IN_QUOTES = "|".join(  # JSON inside JSON: \"a \\\"b\\\" c\"
    rf"\\{quote}(?:[^{quote}\\]|\\\\(?:\\.|[^\\])|\\[^{quote}\\])*+(?:\\?{quote}|\Z)" for quote in "\"'"
)
_VALUE = re.compile(f"{_QUOTED_IN_QUOTES}|{_QUOTED}|{_BARE_VALUE}", re.DOTALL)
_SECRET_TEXTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL
        ),
        MASK,
    ),
    (
        re.compile(r"([a-z][a-z0-9+.-]{1,20}://[^\s/@:\"'<>]{0,128}:)(?!\d{1,5}/)[^\s\"'<>]{1,256}@", re.IGNORECASE),
        rf"\1{MASK}@",
    ),
    (
        re.compile(
            r"\b((?:(?:set-)?cookie|(?:proxy-)?authorization)\s{0,3}:\s{0,3})(?!\\?[\"'])[^\r\n\"']++", re.IGNORECASE
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"\b(bearer)\s{1,3}[\w.~+/=-]{8,}+", re.IGNORECASE), rf"\1 {MASK}"),
    (re.compile(r"\b([Bb]asic|[Dd]igest)\s{1,3}(?=[a-z]{0,80}[^a-z\s])[\w.~+/=-]{8,}+"), rf"\1 {MASK}"),
    (re.compile(r"\b(?:AKIA|ASIA|AGPA|AROA)[A-Z0-9]{16}\b"), MASK),
    (re.compile(r"\beyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]*+"), MASK),
    (
        re.compile(
            r"(?<![\w-])(?:gh[oprsu]_|github_pat_|glpat-|xox[abeoprs]-|sk-|[rs]k_(?:live|test)_|whsec_|AIza|npm_)"
            r"(?=[\w-]{0,200}\d)[\w-]{12,}+"
        ),
        MASK,
    ),
)
_HINTS = re.compile(
    "=|:|-----begin|bearer|basic|digest|akia|asia|agpa|aroa|eyj|gho_|ghp_|ghr_|ghs_|ghu_|github_pat_|glpat-|xox|sk-"
    "|sk_|rk_|whsec_|aiza|npm_"
)
"""What every text with a secret has somewhere in small letters: most texts have none of it, and cost one look."""

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]?"  # CSI: colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*+(?:\x07|\x1b\\|\x9c)"  # titles, links, clipboard
    r"|\x1b[ -/]*+[0-~]?"
)
_BREAKS = re.compile(r"[\r\n\t\v\f\x85\u2028\u2029]++")
_UNSAFE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_UNSAFE_BUT_LINES = re.compile(_UNSAFE.pattern.replace(r"\x00-\x1f", r"\x00-\x08\x0b-\x1f"))
_QUERY_PAIR = re.compile(r"([?&;#])([^=&;#]{1,200})=([^&;#]*+)")


def is_secret(key: str) -> bool:
    """Whether a key or setting of this name holds a secret."""
    return _SECRET_KEY.search(_NOT_WORD.sub("", key[:200].lower())) is not None


def redact(value: Any, depth: int = DEPTH_LIMIT) -> Any:
    """A copy of a JSON value in which secrets are masked, by key and by what texts look like."""
    if isinstance(value, str):
        return redact_text(value)
    if not isinstance(value, Mapping | list | tuple):
        return value
    if depth <= 0:
        return "… (nested too deeply to show)"
    if isinstance(value, Mapping):
        return {redact_text(str(key)): _field(str(key), item, depth) for key, item in value.items()}
    return [redact(item, depth - 1) for item in value]


def _field(key: str, value: Any, depth: int) -> Any:
    if not is_secret(key):
        return redact(value, depth - 1)
    return value if value is None or value == "" or isinstance(value, bool) else MASK


def redact_text(text: str) -> str:
    """The text with everything masked that looks like a password, token, key or cookie."""
    if not _HINTS.search(text.lower()):
        return text
    for pattern, mask in _SECRET_TEXTS:
        text = pattern.sub(mask, text)
    return _without_named(text)


def _without_named(text: str) -> str:
    """The text with the values masked that follow the name of a secret: `password=…`, `"token": "…"`."""
    parts: list[str] = []
    end = 0
    for named in _NAMED.finditer(text):
        if named.start() < end or not _SECRET_IN_TEXT.search(_NOT_WORD.sub("", named[1].lower())):
            continue
        value = _VALUE.match(text, named.end())
        if value is not None:
            parts += (text[end : named.end()], MASK)
            end = value.end()
    return "".join((*parts, text[end:]))


def safe_url(url: str) -> str:
    """The URL without its password and without secrets in its query."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return redact_text(url)
    shown = _QUERY_PAIR.sub(_query_pair, _without_password(rest))
    return f"{scheme}{separator}{shown}"


def _without_password(rest: str) -> str:
    if rest.startswith("/"):
        return rest  # a path: there is no place for a password
    before_query = re.split(r"[?#]", rest, maxsplit=1)[0]
    place = rest if _odd_port(before_query) else before_query
    at = place.rfind("@")
    user, colon, _ = rest[: max(at, 0)].partition(":")
    return f"{user}:{MASK}{rest[at:]}" if colon else rest


def _odd_port(authority: str) -> bool:
    """A password with `?` or `#` in it leaves what looks like a host with a port that is no number."""
    host, colon, port = authority.split("/", 1)[0].partition(":")
    return "@" not in authority and bool(colon) and not port.isdigit() and "[" not in host


def _query_pair(match: re.Match[str]) -> str:
    mark, key, value = match.groups()
    return f"{mark}{key}={MASK if value and is_secret(key) else value}"


def printable(text: str, *, keep_lines: bool = False) -> str:
    """The text for a terminal or log line: no escape sequence, control or bidi character; on one line unless kept."""
    if text.isascii() and text.isprintable():
        return text
    text = _ESCAPES.sub("", wellformed(text))
    if keep_lines:
        return _UNSAFE_BUT_LINES.sub("", text.replace("\r\n", "\n"))
    return _UNSAFE.sub("", _BREAKS.sub(" ", text))


def wellformed(text: str) -> str:
    """The text with lone surrogates and NULs replaced, so that every store and encoder takes it."""
    return text if text.isascii() and "\0" not in text else _LONE.sub("\ufffd", text)


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters of the text, well-formed, and a note of how long it was when it was cut."""
    kept = wellformed(str.__getitem__(text, slice(0, limit)))
    length = str.__len__(text)
    return kept if length <= limit else f"{kept}… (cut, {length} characters)"


def said(error: BaseException) -> str:
    """What an exception says, even if its `str()` raises: then that is said. Not yet cut or well-formed."""
    try:
        return str.__getitem__(str(error), slice(None))  # a plain text even if a subclass came back
    except BaseException as second:  # noqa: BLE001  whatever it raises, a failure must be recorded
        return f"({class_name(error)} whose str() raised {class_name(second)})"


def class_name(thing: object) -> str:
    """The bare name of the class of something, which its metaclass cannot hide."""
    return wellformed(type.__dict__["__name__"].__get__(type(thing))[:200])
