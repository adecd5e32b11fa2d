"""Secrets are hidden and nothing else is; what reaches a terminal is harmless; exceptions are put into words."""

import json
import re
import time
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redrive.redact import (
    MASK,
    class_name,
    is_secret,
    printable,
    redact,
    redact_text,
    safe_url,
    said,
    shortened,
    wellformed,
)

rule = settings(max_examples=40, deadline=None, database=None, derandomize=True)

SECRET_KEYS = [
    *("password", "user_password", "passwordHash", "PGPASSWORD", "pwd", "pass", "passphrase", "token", "access_token"),
    *("accessToken", "X-Api-Key", "apikey", "secret", "client_secret", "SECRET_KEY_BASE", "Authorization", "cookie"),
    *("Set-Cookie", "private_key", "aws_secret_access_key", "session_id", "otp", "pin", "cvv", "ssn", "dsn", "jwt"),
    *("credentials", "connectionString", "encryption_key", "signing-key", "auth", "bearer", "tokens"),
]
PLAIN_KEYS = [
    *("user", "email", "author", "author_id", "authorized", "secretary", "passport", "passenger", "bypass", "compass"),
    *(
        "max_tokens",
        "token_count",
        "key",
        "public_key",
        "idempotency_key",
        "keyboard",
        "spin",
        "pinned",
        "session_count",
    ),
    *("oauth", "signature", "id", "url", "path", ""),
]
secrets = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123456789!#$%+-./~", min_size=6, max_size=30)


# --- by key -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", SECRET_KEYS)
def test_a_key_that_names_a_secret_hides_all_of_its_value(key: str) -> None:
    assert is_secret(key)
    for value in ("s3cr3t", 4711, ["s3cr3t"], {"a": "s3cr3t"}):
        assert redact({"a": [{key: value}]}) == {"a": [{key: MASK}]}


@pytest.mark.parametrize("key", PLAIN_KEYS)
def test_a_key_that_only_looks_like_one_hides_nothing(key: str) -> None:
    assert not is_secret(key)
    assert redact({key: ["x", 7]}) == {key: ["x", 7]}


@pytest.mark.parametrize("nothing", [None, "", True, False])
def test_what_cannot_be_a_secret_is_shown_even_under_its_key(nothing: Any) -> None:
    """That a password is missing or empty is what somebody wants to see."""
    assert redact({"password": nothing}) == {"password": nothing}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("abc xyz,.", max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(PLAIN_KEYS), inner, max_size=4),
    max_leaves=6,
)


@rule
@given(json_values)
def test_a_value_without_secrets_stays_as_it_is(value: Any) -> None:
    assert redact(value) == value


@rule
@given(secrets, st.sampled_from(SECRET_KEYS), st.integers(0, 8))
def test_a_secret_is_found_at_any_depth(secret: str, key: str, depth: int) -> None:
    value: Any = {key: secret}
    for _ in range(depth):
        value = {"a": [value, "b"]}
    assert secret not in json.dumps(redact(value)).replace("\\\\", "\\")


def test_a_value_nested_too_deeply_ends_in_a_remark() -> None:
    value: Any = "password=hunter2"
    for _ in range(100_000):
        value = [value]
    shown = json.dumps(redact(value))
    assert "nested too deeply to show" in shown
    assert len(shown) < 1_000
    while isinstance(value, list):  # taken apart here, because letting go of it at once needs as many frames
        value = value[0]


# --- by what a text looks like ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("connect postgresql://bob:hunter2@db/x failed", "connect postgresql://bob:***@db/x failed"),
        ("redis://:hunter2@h:6379/0", "redis://:***@h:6379/0"),
        ("amqp://u:p@ss@h/v", "amqp://u:***@h/v"),
        ("GET https://x.com/?token=abc&page=2", "GET https://x.com/?token=***&page=2"),
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("authorization: token abc", "authorization: ***"),
        ("Proxy-Authorization: Digest username=bob, response=12", "Proxy-Authorization: ***"),
        ("Authorization: Basic x\nHost: y", "Authorization: ***\nHost: y"),
        ("{'Authorization': 'Bearer abc.def', 'a': 1}", "{'Authorization': ***, 'a': 1}"),
        ('{"password": "hunter\\" 2", "user": "bob"}', '{"password": ***, "user": "bob"}'),
        ('"{\\"token\\": \\"abc\\", \\"a\\": 1}"', '"{\\"token\\": ***, \\"a\\": 1}"'),
        ('"{\\"token\\": \\"a\\\\\\"b\\\\\\"c\\", \\"a\\": 1}"', '"{\\"token\\": ***, \\"a\\": 1}"'),
        ("password=hunter2; user=bob", "password=***; user=bob"),
        ("PASSWORD : hunter2", "PASSWORD : ***"),
        ("db_password = 'correct horse' at line 3", "db_password = *** at line 3"),
        ("X-Api-Key: abc", "X-Api-Key: ***"),
        ("aws_secret_access_key = a/b+c", "aws_secret_access_key = ***"),
        ("Server=h;Password=abc;User=x", "Server=h;Password=***;User=x"),
        ("sent Bearer abcdef123 to x", "sent Bearer *** to x"),
        ("sent Basic dXNlcjpwYXNz to x", "sent Basic *** to x"),
        ("Set-Cookie: sid=1; Path=/", "Set-Cookie: ***"),
        ("key AKIAIOSFODNN7EXAMPLE is wrong", "key *** is wrong"),
        ("ghp_0123456789abcdefghij", "***"),
        ("with sk-proj-0123456789abcdef!", "with ***!"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc is expired", "*** is expired"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nx", "***\nx"),
        ("-----BEGIN PRIVATE KEY-----\nabc, cut off", "***"),
    ],
)
def test_what_looks_like_a_secret_is_masked_and_the_rest_stays(text: str, shown: str) -> None:
    assert redact_text(text) == shown
    assert redact({"a": text}) == {"a": shown}


TOKENS = [
    *(f"{word}IOSFODNN7EXAMPLE" for word in ("AKIA", "ASIA", "AGPA", "AROA")),
    *(f"gh{kind}_0123456789abcdefghij" for kind in "oprsu"),
    *(f"xox{kind}-0123456789-abcdef" for kind in "abeoprs"),
    *(f"{word}0123456789abcdefghij" for word in ("github_pat_", "glpat-", "sk-", "whsec_", "AIza", "npm_")),
    *(f"{word}_{mode}_0123456789abcdef" for word in ("sk", "rk") for mode in ("live", "test")),
]


@pytest.mark.parametrize("token", TOKENS)
def test_a_token_is_known_by_how_it_begins(token: str) -> None:
    """Also where nothing else in the text speaks of a secret."""
    assert redact_text(f"sent {token} to x") == f"sent {MASK} to x"


@pytest.mark.parametrize("kind", ["Basic", "basic", "Digest", "digest"])
def test_what_a_scheme_of_authorization_carries_is_masked(kind: str) -> None:
    """In a text that has no header's name."""
    assert redact_text(f"sent {kind} dXNlcjpwYXNz7 to x") == f"sent {kind} {MASK} to x"


@pytest.mark.parametrize(
    "text",
    [
        *("wrong password for bob", "forgot your password? click", "the secret is out", "invalid token at line 3"),
        *("Unexpected token '<'", "unexpected token: }", "token_count=5", "max_tokens: 4096", "pass: 3, fail: 2"),
        *("auth: failed", "session: expired", "author=bob", "keyboard=us", "secretary: bob", "compass: north"),
        *("bearer of bad news", "basic training is hard", "Digest of the file", "sk-learn-contrib-things"),
        *("npm_config_registry", "https://user@host/x", "http://h:80/x@y", "mail a@b.c: bounced", "at 12:30@home"),
        *("password=", "password: ", "'password': ''"[:12], "https://x.com/a?page=2&sort=name", ""),
    ],
)
def test_a_text_that_only_speaks_of_secrets_stays_as_it_is(text: str) -> None:
    assert redact_text(text) == text


@rule
@given(secrets, st.sampled_from(['{{"password": "{}"}}', "password={}", "token: '{}'", "api_key = {} x", "u:{}"]))
def test_no_secret_comes_through_after_its_name(secret: str, form: str) -> None:
    text = form.format(secret) if form != "u:{}" else f"postgresql://u:{secret.replace('/', '_')}@h/x"
    shown = redact_text(text)
    assert secret not in shown
    assert MASK in shown


@rule
@given(st.text(max_size=200))
def test_what_is_masked_once_is_not_masked_further(text: str) -> None:
    assert redact_text(redact_text(redact_text(text))) == redact_text(redact_text(text))


# --- URLs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://bob:hunter2@db/x", "postgresql://bob:***@db/x"),
        ("postgresql://bob:p@ss@db/x?password=y&sslmode=x", "postgresql://bob:***@db/x?password=***&sslmode=x"),
        ("postgresql://u:p/w@h/x", "postgresql://u:***@h/x"),
        ("postgresql://u:p?w@h/x", "postgresql://u:***@h/x"),
        ("postgresql://u:p#w@h/x", "postgresql://u:***@h/x"),
        ("postgresql://u:p@h1:1,h2:2/x", "postgresql://u:***@h1:1,h2:2/x"),
        ("redis://:hunter2@h", "redis://:***@h"),
        ("amqp://u:p@h/%2f?queue=a&token=b#c", "amqp://u:***@h/%2f?queue=a&token=***#c"),
        ("https://h/x?Api-Key=b;a=c", "https://h/x?Api-Key=***;a=c"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert safe_url(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        *(
            "sqlite:///redrive.db",
            "sqlite:////abs/a:b@c/x.db",
            "memory://",
            "postgresql://bob@db/x",
            "http://[::1]:80/x",
        ),
        *("https://h/p@q:r", "amqp://h/v?queue=a&task=b.c", "redis://h:6379/0?list=x", "https://h/?token=&a=b", "x"),
    ],
)
def test_a_url_without_secrets_is_shown_whole(url: str) -> None:
    assert safe_url(url) == url


@rule
@given(secrets)
def test_no_password_of_a_url_is_shown(password: str) -> None:
    assert password not in safe_url(f"postgresql://user:{password}@host/x")


# --- what a terminal is shown -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b", "ab"),
        ("\x1b]52;c;aGk=\x07x", "x"),
        ("\x9b31mred\x9d0;t\x9cx", "redx"),
        ("a\x1bcb\x1b(0c", "abc"),
        ("a\rb\nc\td\u2028e", "a b c d e"),
        ("\u202eevil\u202c \u2066x\u2069\u200f\u061c", "evil x"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("bell\x07 back\x08 nul\x00 del\x7f", "bell back nul\ufffd del"),
        ("tag\U000e0041x", "tagx"),
        ("half \ud800", "half \ufffd"),
        ("naïve 数 🎉 e\u0301", "naïve 数 🎉 e\u0301"),
    ],
)
def test_only_what_can_be_read_reaches_the_terminal(text: str, shown: str) -> None:
    assert printable(text) == shown


anything = st.text(
    st.one_of(st.characters(), st.sampled_from("\x1b\x9b\x9d\x07[]();mABC\n\r\t\u202e\u2066\u200b\ud800\x00")),
    max_size=60,
)


@rule
@given(anything)
def test_nothing_printable_can_move_a_cursor_or_turn_the_text(text: str) -> None:
    shown = printable(text)
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")]
    assert not [c for c in shown if unicodedata.bidirectional(c) in ("RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI")]
    assert printable(shown) == shown


@rule
@given(anything)
def test_lines_are_kept_when_asked_for_and_nothing_else_is(text: str) -> None:
    shown = printable(text, keep_lines=True)
    assert {c for c in shown if unicodedata.category(c) == "Cc"} <= {"\n", "\t"}


def test_lines_and_tabs_are_kept_when_asked_for() -> None:
    assert printable("a\r\n\tb\x1b[1mc", keep_lines=True) == "a\n\tbc"


# --- bounded ----------------------------------------------------------------------------------------------------------

NASTY = ["a", "a-", "a:", "sk-", "://", "a://b:", "password=", 'password="', "basic ", "eyJaaaaaaaa.", "\x1b[", "\x1b]"]


@pytest.mark.parametrize("piece", [*NASTY, "cookie:", '\\"', "bearer aaaaaaaa", "-----BEGIN PRIVATE KEY-----", "?a=b"])
def test_no_text_takes_long(piece: str) -> None:
    """16 KiB of the worst kind in about a tenth of a second; a pattern that blows up takes minutes."""
    text = piece * (16_384 // len(piece))
    start = time.process_time()
    redact_text(text)
    printable(text)
    safe_url(f"x://{text}")
    assert time.process_time() - start < 5


# --- texts and exceptions ---------------------------------------------------------------------------------------------


def test_a_text_is_cut_with_a_note_of_its_length() -> None:
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdef", 3) == "abc… (cut, 6 characters)"


@rule
@given(anything, st.integers(0, 80))
def test_a_shortened_text_can_be_stored_and_is_not_much_longer(text: str, limit: int) -> None:
    kept = shortened(text, limit)
    assert kept.encode("utf-8") is not None
    assert "\0" not in kept
    assert len(kept) <= limit + 40
    if not re.search("[\0\ud800-\udfff]", text) and len(text) <= limit:
        assert kept == wellformed(text) == text


class Sly(str):
    __slots__ = ()

    def __getitem__(self, key: Any) -> str:
        raise ZeroDivisionError

    __len__ = __str__ = __getitem__  # type: ignore[assignment]


class Said(Exception):
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __str__(self) -> str:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("plain", "plain"),
        ("", ""),
        (5, "(Said whose str() raised TypeError)"),
        (None, "(Said whose str() raised TypeError)"),
        (ValueError("x"), "(Said whose str() raised ValueError)"),
        (KeyboardInterrupt(), "(Said whose str() raised KeyboardInterrupt)"),
        (SystemExit(), "(Said whose str() raised SystemExit)"),
    ],
)
def test_what_an_exception_says_is_a_text_whatever_it_answers(answer: Any, words: str) -> None:
    said_it = said(Said(answer))
    assert said_it == words
    assert type(said_it) is str


def test_a_text_of_a_sly_class_is_read_as_the_plain_text_it_is() -> None:
    words = said(Said(Sly("sly")))
    assert words == "sly"
    assert type(words) is str
    assert shortened(Sly("slyness"), 3) == "sly… (cut, 7 characters)"


def test_an_exception_whose_text_is_endless_recursion_says_so() -> None:
    class Endless(Exception):
        def __str__(self) -> str:
            return str(self)

    assert said(Endless()) == "(Endless whose str() raised RecursionError)"


def test_the_name_of_a_class_is_bounded() -> None:
    assert class_name(type("x" * 500, (Exception,), {})()) == "x" * 200
