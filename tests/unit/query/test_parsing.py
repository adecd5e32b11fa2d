"""A filter is read as it was meant, or refused in one sentence that points at the place."""

import random
from collections.abc import Callable
from datetime import datetime

import pytest

from redrive.clock import SECOND, moment
from redrive.errors import UsageError
from redrive.query.parsing import DEPTH_LIMIT, TERMS_LIMIT, VALUES_LIMIT, parse, saying
from redrive.query.tree import (
    EVERYTHING,
    Among,
    AmongJson,
    Both,
    Compare,
    CompareJson,
    Either,
    Missing,
    MissingJson,
    Not,
    Path,
    Place,
    Said,
    Scalar,
    Selects,
    Tree,
)
from redrive.query.words import LENGTH_LIMIT, BadFilter
from redrive.testing.filters import broken, valid

NOW = moment("2026-11-19T12:00:00Z")
HOUR = 3_600 * SECOND
A, B, C = (Compare("queue", "=", name) for name in "abc")
TIMEOUT = Compare("reason", "=", "timeout")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("", EVERYTHING),
        ("  \n ", EVERYTHING),
        ("queue = a", A),
        ("queue=a", A),
        ("queue == 'a'", A),
        ("QUEUE = a", A),
        ("queue != a", Not(A)),
        ("queue = a and queue = b", Both((A, B))),
        ("queue = a && queue = b, queue = c", Both((A, B, C))),
        ("queue = a or queue = b || queue = c", Either((A, B, C))),
        ("queue = a or queue = b and queue = c", Either((A, Both((B, C))))),
        ("queue = a and queue = b or queue = c", Either((Both((A, B)), C))),
        ("(queue = a or queue = b) and queue = c", Both((Either((A, B)), C))),
        ("not queue = a and queue = b", Both((Not(A), B))),
        ("!(queue = a and queue = b)", Not(Both((A, B)))),
        ("not not queue = a", A),
        ("NOT queue = a OR queue = b", Either((Not(A), B))),
    ],
)
def test_terms_are_joined_as_everywhere(text: str, tree: Tree) -> None:
    """`not` binds most, then `and` and the comma, then `or`; case does not matter."""
    assert parse(text, NOW) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("timeout", Said("timeout")),
        ("'connection refused'", Said("connection refused")),
        ("message", Said("message")),
        ("message ~ refused", Compare("message", "~", "refused")),
        ("reason = TIMEOUT", TIMEOUT),
        ("failureReason = timed_out", TIMEOUT),
        ("reason in (NETWORK_ERROR, mine)", Among("reason", ("network", "mine"))),
        ("reason not in (timeout)", Not(Among("reason", ("timeout",)))),
        ("error_type = TIMEOUT", TIMEOUT),
        ("error_type = TimeoutExpired", Compare("error", "=", "TimeoutExpired")),
        ("error_type in (TIMEOUT, KeyError)", Either((TIMEOUT, Compare("error", "=", "KeyError")))),
        ("error_type is null", Missing("error")),
        ("error_contains = refused", Compare("message", "~", "refused")),
        ("error_contains != refused", Not(Compare("message", "~", "refused"))),
        ("error = ConnectionError", Compare("error", "=", "ConnectionError")),
        ("priority = high", Compare("priority", "=", 8)),
        ("priority <= 2", Compare("priority", "<=", 2)),
        ("failure_count >= 3", Compare("attempts", ">=", 3)),
        ("state = OPEN", Compare("state", "=", "open")),
        ("id = 5A1F-01c2", Compare("id", "=", "5a1f01c2")),
        ("group = 3f2a", Compare("group", "=", "3f2a")),
        ("release is null", Missing("release")),
        ("release is not null", Not(Missing("release"))),
        ("attempts = 99999999999999999999999", Compare("attempts", "=", 2**63 - 1)),
    ],
)
def test_a_field_is_compared_by_its_kind(text: str, tree: Tree) -> None:
    """Names that other systems have for a field or a reason mean the same."""
    assert parse(text, NOW) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("failed_at > -24h", Compare("failed_at", ">=", NOW - 24 * HOUR + 1)),
        ("failed_at >= -24h", Compare("failed_at", ">=", NOW - 24 * HOUR)),
        ("first_failed_at < 2026-11-19T11:00:00Z", Compare("first_failed_at", "<", NOW - HOUR)),
        ("failed_at <= now", Compare("failed_at", "<", NOW + 1)),
        ("failed_at > '+1h'", Compare("failed_at", ">=", NOW + HOUR + 1)),
        ("age > 2h", Compare("failed_at", "<", NOW - 2 * HOUR)),
        ("age <= 90", Compare("failed_at", ">=", NOW - 90 * SECOND)),
    ],
)
def test_times_count_from_now_or_are_points(text: str, tree: Tree) -> None:
    """An age is a time seen from the other end."""
    assert parse(text, NOW) == tree


def test_a_date_stands_for_its_whole_day() -> None:
    """From midnight to midnight where it is typed: after it is the next day, in it is any of its moments."""
    first, after = moment(datetime(2026, 1, 31)), moment(datetime(2026, 2, 1))  # noqa: DTZ001 - local
    told = {sign: parse(f"failed_at {sign} 2026-01-31", NOW) for sign in ("<", "<=", ">", ">=", "=")}
    assert told == {
        "<": Compare("failed_at", "<", first),
        "<=": Compare("failed_at", "<", after),
        ">": Compare("failed_at", ">=", after),
        ">=": Compare("failed_at", ">=", first),
        "=": Both((Compare("failed_at", ">=", first), Compare("failed_at", "<", after))),
    }


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("payload ~ gold", CompareJson(Place("payload"), "~", Scalar("gold"))),
        ("item.score >= 5", CompareJson(Place("payload", ("score",)), ">=", Scalar("5"))),
        (
            'payload.user.tier = "gold"',
            CompareJson(Place("payload", ("user", "tier")), "=", Scalar("gold", quoted=True)),
        ),
        ("payload.items[0].id = 7", CompareJson(Place("payload", ("items", 0, "id")), "=", Scalar("7"))),
        ("payload.items[-1] is null", MissingJson(Place("payload", ("items", -1)))),
        ('payload["a b"].c = 1', CompareJson(Place("payload", ("a b", "c")), "=", Scalar("1"))),
        ("headers.x-id in (a, 'b')", AmongJson(Place("headers", ("x-id",)), (Scalar("a"), Scalar("b", quoted=True)))),
        ("$.items[?@.price > 10]", Selects(Path("$.items[?@.price > 10]"))),
        ('$.user.tier == "gold"', CompareJson(Path("$.user.tier"), "=", Scalar("gold", quoted=True))),
        ("$..id is null", MissingJson(Path("$..id"))),
        ("$.a and $['b c']", Both((Selects(Path("$.a")), Selects(Path("$['b c']"))))),
        ("not $.a[?@.b == ')' && @.c]", Not(Selects(Path("$.a[?@.b == ')' && @.c]")))),
    ],
)
def test_places_in_the_payload_are_named_by_dots_brackets_and_paths(text: str, tree: Tree) -> None:
    """`item` is another word for payload; what begins with `$` is RFC 9535."""
    assert parse(text, NOW) == tree


def refused(text: str) -> BadFilter | None:
    """Why a filter is not understood."""
    try:
        parse(text, NOW)
    except BadFilter as refusal:
        return refusal
    return None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("reasn = timeout", "unknown field 'reasn'; did you mean 'reason'? (column 1)"),
        ("queue = a and frobnicate = 1", "unknown field 'frobnicate'; the fields are id, queue"),
        ("queue.x = a", "queue has no parts; only payload and headers have (column 1)"),
        ("'queue' = a", "'queue' is in quotes and so no field; write the name of a field without (column 1)"),
        ("payload..a = 1", "a name is missing between the dots of 'payload..a' (column 1)"),
        ("payload[x] = 1", 'a bracket holds a number or a quoted name, as in payload.items[0] and payload["a b"]; for'),
        ("timeout network", "'network' is one too many; join terms with and, or (column 9)"),
        ("queue =", "a value is missing at the end; put one with special signs in quotes (column 8)"),
        ("queue = = a", "a value is missing before '='; put one with special signs in quotes (column 9)"),
        ("queue = a and", "a term is missing at the end; write field = value, or a word to search for (column 14)"),
        ("and queue = a", "a term is missing before 'and'; write field = value, or a word to search for (column 1)"),
        ("(queue = a", "a closing bracket is missing (column 11)"),
        ("queue = a)", "')' is one too many; join terms with and, or (column 10)"),
        ("queue in a", "after `in` a list in brackets follows: in (a, b) (column 10)"),
        ("queue in (a b)", "a list ends with a closing bracket: in (a, b) (column 13)"),
        ("queue is a", "after `is` only null or not null can follow (column 10)"),
        ("queue = 'a", "the quote ' is not closed (column 9)"),
        ("queue = a[", "a bracket holds a number or a quoted name"),
        ("attempts > many", "attempts is a whole number, and 'many' is none (column 12)"),
        ("queue > a", "queue cannot be compared with >; it can with =, !=, ~, in (column 9)"),
        ("attempts ~ 3", "attempts cannot be compared with ~; it can with =, !=, <, <=, >, >=, in (column 12)"),
        ("age = 2h", "age cannot be compared with =; it can with <, <=, >, >= (column 7)"),
        ("state = opn", "a letter has no state 'opn'; did you mean open? (column 9)"),
        ("state = x", "a letter has no state 'x'; write one of open, redriven, closed, discarded (column 9)"),
        ("id = letter-7", "'letter-7' is no id: write its hex digits, or the last digits of it (column 6)"),
        ("group = smtp", "'smtp' is no group: write its hex digits, or the first digits of it (column 9)"),
        (
            "failed_at > soon",
            "failed_at is a time, and 'soon' is none; write 2026-01-31, 2026-01-31T08:00, today, yest",
        ),
        ("failed_at in (now)", "failed_at is a time; compare it with =, < and > (column 15)"),
        ("age > soon", "age: 'soon' is not a duration"),
        ("$.a[ = 1", "the path is not closed: ']' is missing"),
        ("$.a. = 1", "'$.a.' is no path that can be followed"),
        ("$[?match(@.a, 'b')]", "function 'match' is not defined"),
        ("$..a[?@..b]", "`..` may stand in it once, because every further one looks through everything again"),
        ("[a] = 1", "'[' cannot stand here; put a value with it in quotes (column 1)"),
    ],
)
def test_what_is_wrong_is_said_with_its_column(text: str, sentence: str) -> None:
    """One sentence, with a guess where there is one."""
    refusal = refused(text)
    assert sentence in str(refusal)
    assert "\n" not in str(refusal)
    assert isinstance(refusal, UsageError)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a" * (LENGTH_LIMIT + 1), "the filter has 10,001 characters, and 10,000 are the limit"),
        ("(" * (DEPTH_LIMIT + 1) + "a" + ")" * (DEPTH_LIMIT + 1), "brackets are nested more than 50 deep (column 52)"),
        (" or ".join("a" * (TERMS_LIMIT + 1)), "there are more than 200 terms"),
        (f"queue in ({','.join('a' * (VALUES_LIMIT + 1))})", "the list has 1,001 values, and 1,000 are the limit"),
        (f"${'[?@' * 2_000}{']' * 2_000}", "is no path that can be followed"),
    ],
    ids=["length", "depth", "terms", "values", "path"],
)
def test_a_filter_has_limits(text: str, sentence: str) -> None:
    """Whoever sends one may not keep a server busy with it."""
    assert sentence in str(refused(text))


@pytest.mark.parametrize(
    ("typed", "plain"),
    [
        ("failedAt > 2026-01-31", "failed_at > 2026-01-31"),
        ("Failure-Count > 3 and error_message ~ x", "attempts > 3 and message ~ x"),
        ("Error_Contains = x", "message ~ x"),
        ("error_contains in (x, y)", "message ~ x or message ~ y"),
        ("reason <> timeout", "reason != timeout"),
        ("message =~ x and message !~ y", "message ~ x and not message ~ y"),
        ("release = null and host != NULL", "release is null and host is not null"),
        ("release in (2.4, null)", "release is null or release in (2.4)"),
        ("release not in (null)", "release is not null"),
        ('payload."a b".c = 1', 'payload["a b"].c = 1'),
        ("payload.x.'a.b' = 1", "payload.x['a.b'] = 1"),
        ('payload.x[0]."a b" = 1 and queue = a', 'payload.x[0]["a b"] = 1 and queue = a'),
        (r"'\ud83d\ude00'", "'\U0001f600'"),
        ("failed_at > \u221224h", "failed_at > -24h"),
        ("failed_at = 20260131", "failed_at = 2026-01-31"),
        ("failed_at >= 2026-01-31t08:00z", "failed_at >= 2026-01-31T08:00Z"),
        ("failed_at < today", f"failed_at < {datetime.fromtimestamp(NOW / SECOND):%Y-%m-%d}"),  # noqa: DTZ006
        ("attempts < -99999999999999999999999", "attempts < -9223372036854775807"),
    ],
)
def test_what_people_type_means_what_they_mean(typed: str, plain: str) -> None:
    """Names and signs as other systems have them, and what a keyboard or a page makes of a sign."""
    assert parse(typed, NOW) == parse(plain, NOW)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("attempts = aaaaaaaaaaaaaaaaaaaaaaaaaaaa", "attempts is a whole number, and 'aaaa"),
        ("priority = urgent", "priority is a number or one of low, normal, high, and 'urgent' is neither (column 12)"),
        ("reason = \u201ctimeout\u201d", "\u201c is a quote of a typesetter; write ' or \" in its place (column 10)"),
        ("message ~ a\udcff", "'\\udcff' is half a character; type the whole one, in UTF-8 (column 12)"),
        (r"message ~ '\ud800'", "'\\ud800' is half a character"),
        ("-24h", "-24h is a time; write failed_at > -24h, or put a text to search for in quotes (column 1)"),
        ("user.tier = gold", "unknown field 'user.tier'; did you mean payload.user.tier?"),
        ("payload.items[*].n = 1", "write a path that begins with $, such as $.items[*].price (column 14)"),
        (f"$[{'9' * 5_000}]", "a number in it is too large"),
        ("$[?@.n > 1e999]", "a number in it is too large"),
        ("$" + "[0, 0]" * 8, "it follows more than 200 ways at once; name fewer places in its brackets (column 1)"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_way_out(text: str, sentence: str) -> None:
    """Instead of a filter that quietly lets nothing through, or one that never ends."""
    assert sentence in str(refused(text))


@pytest.mark.parametrize("text", ["> 1970-01-01", "> 1900-01-01T00:00Z", "< 9999-12-31", "< 9999-12-31T23:59:59Z"])
def test_a_time_beyond_all_letters_is_before_or_after_them(text: str) -> None:
    """As people write `since ever` and `for ever`."""
    tree = parse(f"failed_at {text}", NOW)
    assert isinstance(tree, Compare)
    assert isinstance(tree.value, int)
    assert tree.value <= SECOND if text.startswith(">") else tree.value > NOW


def test_a_text_is_searched_for_as_it_is() -> None:
    """Whatever signs it has; only what no letter can hold is refused."""
    assert saying("a = (b") == Said("a = (b")
    for text in ("\udcff", "a" * (LENGTH_LIMIT + 1)):
        with pytest.raises(BadFilter):
            saying(text)


@pytest.mark.parametrize(("make", "least"), [(valid, 20_000), (broken, 1_000)])
def test_no_filter_ends_in_anything_but_a_tree_or_a_refusal(make: Callable[[random.Random], str], least: int) -> None:
    """100,000 of them, half in the grammar."""
    chance = random.Random(7)
    understood = sum(refused(make(chance)) is None for _ in range(50_000))
    assert least < understood < 50_000
