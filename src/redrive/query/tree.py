"""What a filter says, with every name resolved and every value read: nothing here depends on how it was spelled.

The classes are tagged, so that a tree can be kept as JSON and read again.
"""

from typing import Literal

import msgspec

Order = Literal["=", "<", "<=", ">", ">=", "~"]
"""`!=` is a negated `=`; `~` is: contains, in any case."""

Step = str | int


class Scalar(msgspec.Struct, frozen=True, tag=True):
    """A value that is compared with JSON: quoted it is a text, bare it may also be a number, true, false or null."""

    text: str
    quoted: bool = False


class Both(msgspec.Struct, frozen=True, tag=True):
    """All of these."""

    terms: tuple["Tree", ...]


class Either(msgspec.Struct, frozen=True, tag=True):
    """Any of these."""

    terms: tuple["Tree", ...]


class Not(msgspec.Struct, frozen=True, tag=True):
    """All but these."""

    term: "Tree"


class Compare(msgspec.Struct, frozen=True, tag=True):
    """A field of the letter against a value of the field's kind; a missing one is never equal, less or more."""

    field: str
    order: Order
    value: str | int


class Among(msgspec.Struct, frozen=True, tag=True):
    """The field is one of these."""

    field: str
    values: tuple[str | int, ...]


class Missing(msgspec.Struct, frozen=True, tag=True):
    """The letter has nothing there."""

    field: str


class Said(msgspec.Struct, frozen=True, tag=True):
    """This stands somewhere in the message, the error type or the task, in any case."""

    text: str


class Place(msgspec.Struct, frozen=True, tag=True):
    """A place in the payload or the headers: no steps for the whole of it."""

    of: Literal["payload", "headers"]
    steps: tuple[Step, ...] = ()


class Path(msgspec.Struct, frozen=True, tag=True):
    """An RFC 9535 path into the payload, which may select several values."""

    text: str


class CompareJson(msgspec.Struct, frozen=True, tag=True):
    """Some value that is selected there compares so."""

    where: Place | Path
    order: Order
    value: Scalar


class AmongJson(msgspec.Struct, frozen=True, tag=True):
    """Some value that is selected there is one of these."""

    where: Place | Path
    values: tuple[Scalar, ...]


class MissingJson(msgspec.Struct, frozen=True, tag=True):
    """Nothing is there, or only null."""

    where: Place | Path


class Selects(msgspec.Struct, frozen=True, tag=True):
    """The path selects something."""

    path: Path


Tree = Both | Either | Not | Compare | Among | Missing | Said | CompareJson | AmongJson | MissingJson | Selects

EVERYTHING = Both(())
"""The filter that lets every letter through."""

OPEN = Compare("state", "=", "open")
"""The filter that means open letters."""


def of_group(fingerprint: str) -> Both:
    """The filter that means the open letters of a group."""
    return Both((OPEN, Compare("group", "=", fingerprint)))


def looks_inside(tree: Tree) -> bool:
    """Whether more than the row of a letter has to be read to know if it is meant, such as its job's payload."""
    match tree:
        case Both(terms) | Either(terms):
            return any(map(looks_inside, terms))
        case Not(term):
            return looks_inside(term)
        case Compare(field) | Among(field) | Missing(field):
            return field in ("note", "traceback", "workflow")
        case Said():
            return False
        case _:
            return True


def demands(tree: Tree, term: Tree) -> bool:
    """Whether every letter that is meant fulfils this term, as can be seen at once."""
    return tree == term or (isinstance(tree, Both) and any(demands(each, term) for each in tree.terms))


def fields_in(tree: Tree) -> frozenset[str]:
    """The fields of the letter itself that a filter speaks of."""
    match tree:
        case Both(terms) | Either(terms):
            return frozenset().union(*map(fields_in, terms))
        case Not(term):
            return fields_in(term)
        case Compare(field) | Among(field) | Missing(field):
            return frozenset({field})
        case _:
            return frozenset()
