"""From text to tree: a Pratt parser over words; what is wrong is said with its column and a guess at what was meant."""

import re
from collections.abc import Callable
from typing import NoReturn

from redrive.query.fields import FIELDS, Field, field_named, guess, is_either, means_contains
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
    Order,
    Path,
    Place,
    Said,
    Scalar,
    Selects,
    Tree,
)
from redrive.query.values import span_of, value_of
from redrive.query.words import LENGTH_LIMIT, BadFilter, Word, refuse_halves, words
from redrive.reasons import RETRYABLE, reason_named

DEPTH_LIMIT = 50
TERMS_LIMIT = 200
VALUES_LIMIT = 1_000

_TIME_ALONE = re.compile(r"-\d+(?:s|m|h|d|w)", re.IGNORECASE)
_BINDS = {"or": 1, "and": 2, ",": 2}
_ORDERS: dict[str, Order] = {"=": "=", "!=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "~": "~", "!~": "~"}
_ALLOWED: dict[str, tuple[Order, ...]] = {
    "text": ("=", "~"),
    "error": ("=", "~"),
    "reason": ("=", "~"),
    "part": ("=",),
    "id": ("=",),
    "state": ("=",),
    "priority": ("=", "<", "<=", ">", ">="),
    "number": ("=", "<", "<=", ">", ">="),
    "time": ("=", "<", "<=", ">", ">="),
    "age": ("<", "<=", ">", ">="),
}
_OLDER: dict[Order, Order] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def parse(text: str, now: int) -> Tree:
    """What a filter says; times such as -24h count from `now` (microseconds of UTC)."""
    parser = _Parser(words(text), now)
    return EVERYTHING if parser.at_end else parser.whole()


def saying(text: str) -> Tree:
    """The letters that have this text in the message, the error type or the task, whatever signs are in it."""
    if len(text) > LENGTH_LIMIT:
        raise BadFilter(f"the text has {len(text):,} characters, and {LENGTH_LIMIT:,} are the limit", LENGTH_LIMIT)
    refuse_halves(text, 1)
    return Said(text)


class _Parser:
    """The words of a filter, and how far they have been read."""

    def __init__(self, found: list[Word], now: int) -> None:
        self._words = found
        self._place = 0
        self._now = now
        self._depth = 0
        self._terms = 0

    @property
    def here(self) -> Word:
        """The word that is looked at."""
        return self._words[self._place]

    @property
    def at_end(self) -> bool:
        """Whether nothing is left."""
        return self.here.sort == "end"

    def whole(self) -> Tree:
        """All of it as one tree."""
        tree = self.expression(0)
        if not self.at_end:
            self.fail(f"{self.here.text!r} is one too many; join terms with and, or")
        return tree

    def fail(self, message: str, word: Word | None = None) -> NoReturn:
        """What is wrong, at this word."""
        raise BadFilter(message, (word or self.here).column)

    def _take(self) -> Word:
        word = self.here
        self._place += word.sort != "end"
        return word

    def _is(self, *texts: str) -> bool:
        """Whether one of these operators or keywords stands here."""
        word = self.here
        return word.sort in ("operator", "word") and word.text.lower() in texts

    def _accept(self, *texts: str) -> str | None:
        return self._take().text.lower() if self._is(*texts) else None

    # terms and what joins them ----------------------------------------------------------------------------------------

    def expression(self, least: int) -> Tree:
        """Terms joined by what binds more strongly than `least`."""
        terms = [self._negated()]
        joined: str | None = None
        while (word := self._joint()) is not None and _BINDS[word] > least:
            if joined is not None and word != joined:
                terms = [_join(joined, terms)]
            joined = word
            self._take()
            terms.append(self.expression(_BINDS[word]))
        return _join(joined, terms)

    def _joint(self) -> str | None:
        """The word that joins two terms; a comma is an `and`."""
        if not self._is(*_BINDS):
            return None
        return "or" if self._is("or") else "and"

    def _negated(self) -> Tree:
        with_not = 0
        while self._accept("not"):
            with_not += 1
        term = self._primary()
        return Not(term) if with_not % 2 else term

    def _primary(self) -> Tree:
        if not self._accept("("):
            return self._term()
        self._depth += 1
        if self._depth > DEPTH_LIMIT:
            self.fail(f"brackets are nested more than {DEPTH_LIMIT} deep")
        tree = self.expression(0)
        if not self._accept(")"):
            self.fail("a closing bracket is missing")
        self._depth -= 1
        return tree

    def _term(self) -> Tree:
        self._terms += 1
        if self._terms > TERMS_LIMIT:
            self.fail(f"there are more than {TERMS_LIMIT} terms")
        word = self._take()
        if word.sort in ("end", "operator") or (word.sort == "word" and word.text.lower() in ("and", "or")):
            self.fail(f"a term is missing{_before(word)}; write field = value, or a word to search for", word)
        if word.sort == "path":
            return self._about_path(word)
        if self._compares():
            return self._about_field(word)
        if word.sort == "word" and _TIME_ALONE.fullmatch(word.text):
            self.fail(
                f"{word.text} is a time; write failed_at > {word.text}, or put a text to search for in quotes", word
            )
        return Said(word.text)

    def _compares(self) -> bool:
        """Whether what stands here makes the word before it the name of a field."""
        if self._is("is", "in"):
            return True
        negated = self._is("not") and self._words[self._place + 1].text.lower() == "in"
        return negated or (self.here.sort == "operator" and self.here.text in _ORDERS)

    # one term ---------------------------------------------------------------------------------------------------------

    def _about_path(self, word: Word) -> Tree:
        path = Path(_checked(word))
        return self._json(path) if self._compares() else Selects(path)

    def _about_field(self, word: Word) -> Tree:
        field = _field(word)
        if field is None:
            return self._either()
        if field.kind == "json":
            return self._json(Place("headers" if field.name == "headers" else "payload", word.steps))
        contains = means_contains(word.text)
        return self._compared(
            Missing("failed_at" if field.kind == "age" else field.name),
            lambda order, value: self._compare(field, order, value),
            lambda values: _contains_any(field, values) if contains else _among(field, values),
            contains=contains,
        )

    def _either(self) -> Tree:
        """`error_type` is a reason where its value is one."""

        def chosen(value: Word) -> Field:
            return FIELDS["reason" if reason_named(value.text) in RETRYABLE else "error"]

        return self._compared(
            Missing("error"),
            lambda order, value: self._compare(chosen(value), order, value),
            lambda values: Either(tuple(Compare(chosen(v).name, "=", value_of(chosen(v), v)) for v in values)),
        )

    def _json(self, where: Place | Path) -> Tree:
        return self._compared(
            MissingJson(where),
            lambda order, value: CompareJson(where, order, _scalar(value)),
            lambda values: AmongJson(where, tuple(map(_scalar, values))),
        )

    def _compared(
        self,
        missing: Tree,
        compare: Callable[[Order, Word], Tree],
        among: Callable[[list[Word]], Tree],
        *,
        contains: bool = False,
    ) -> Tree:
        """The operator and its values, and what they mean here; `contains` makes an equal sign mean that."""
        if self._accept("is"):
            negated = self._accept("not")
            if not self._accept("null"):
                self.fail("after `is` only null or not null can follow")
            return Not(missing) if negated else missing
        negated = self._accept("not")
        if self._accept("in"):
            tree = among(self._values())
            return Not(tree) if negated else tree
        operator = self._take().text
        order = "~" if contains and operator in ("=", "!=") else _ORDERS[operator]
        tree = compare(order, self._value())
        return Not(tree) if operator in ("!=", "!~") else tree

    def _values(self) -> list[Word]:
        if not self._accept("("):
            self.fail("after `in` a list in brackets follows: in (a, b)")
        found = [self._value()]
        while self._accept(","):
            found.append(self._value())
        if not self._accept(")"):
            self.fail("a list ends with a closing bracket: in (a, b)")
        if len(found) > VALUES_LIMIT:
            self.fail(f"the list has {len(found):,} values, and {VALUES_LIMIT:,} are the limit")
        return found

    def _value(self) -> Word:
        word = self._take()
        if word.sort not in ("word", "quoted"):
            self.fail(f"a value is missing{_before(word)}; put one with special signs in quotes", word)
        return word

    def _compare(self, field: Field, order: Order, word: Word) -> Tree:
        if order not in _ALLOWED[field.kind]:
            self.fail(f"{field.name} cannot be compared with {order}; it can with {_able(field)}", word)
        if order == "=" and _is_null(word):
            return Missing(field.name)
        if field.kind == "time":
            return _within(field.name, order, *span_of(field, word, self._now))
        if field.kind == "age":
            return Compare("failed_at", _OLDER[order], max(0, self._now - int(value_of(field, word))))
        return Compare(field.name, order, value_of(field, word))


def _able(field: Field) -> str:
    """How such a field compares, as a list."""
    orders = _ALLOWED[field.kind]
    listed = ["=", "!=", *(each for each in orders if each != "=")] if "=" in orders else list(orders)
    return ", ".join(listed if field.kind in ("time", "age") else [*listed, "in"])


def _before(word: Word) -> str:
    return " at the end" if word.sort == "end" else f" before {word.text!r}"


def _join(word: str | None, terms: list[Tree]) -> Tree:
    if word is None:
        return terms[0]
    return Both(tuple(terms)) if word == "and" else Either(tuple(terms))


def _field(word: Word) -> Field | None:
    """The field that is named here; None for the word that may be two."""
    name = word.text
    for sign in ".[":
        name = name.partition(sign)[0]
    if is_either(name) and not word.steps:
        return None
    if word.sort == "quoted":
        raise BadFilter(f"{word.text!r} is in quotes and so no field; write the name of a field without", word.column)
    field = field_named(name)
    if field is None:
        raise BadFilter(f"unknown field {word.text!r}; {_hint(word, name)}", word.column)
    if word.steps and field.kind != "json":
        raise BadFilter(f"{field.name} has no parts; only payload and headers have", word.column)
    if "" in word.steps:
        raise BadFilter(f"a name is missing between the dots of {word.text!r}", word.column)
    return field


def _hint(word: Word, name: str) -> str:
    if near := guess(name):
        return f"did you mean {near!r}?"
    inside = f"did you mean payload.{word.text}? " if word.steps else ""
    return f"{inside}the fields are {', '.join(FIELDS)}"


def _is_null(word: Word) -> bool:
    return word.sort == "word" and word.text.lower() == "null"


def _contains_any(field: Field, values: list[Word]) -> Tree:
    return Either(tuple(Compare(field.name, "~", value.text) for value in values))


def _among(field: Field, values: list[Word]) -> Tree:
    if field.kind in ("time", "age"):
        raise BadFilter(f"{field.name} is a time; compare it with =, < and >", values[0].column)
    there = Among(field.name, tuple(value_of(field, value) for value in values if not _is_null(value)))
    if not any(map(_is_null, values)):
        return there
    return Either((Missing(field.name), there)) if there.values else Missing(field.name)


def _within(field: str, order: Order, first: int, after: int) -> Tree:
    """A time against a span: before it, after it, or in it."""
    match order:
        case "<":
            return Compare(field, "<", first)
        case "<=":
            return Compare(field, "<", after)
        case ">":
            return Compare(field, ">=", after)
        case ">=":
            return Compare(field, ">=", first)
        case _:
            return Both((Compare(field, ">=", first), Compare(field, "<", after)))


def _scalar(word: Word) -> Scalar:
    return Scalar(word.text, quoted=word.sort == "quoted")


def _checked(word: Word) -> str:
    """The text of a path that can be followed."""
    from redrive.query.paths import fault_of  # lazy: its library takes as long to import as all of the command line

    fault = fault_of(word.text)
    if fault is not None:
        raise BadFilter(f"{word.text!r} is no path that can be followed: {fault}", word.column)
    return word.text
