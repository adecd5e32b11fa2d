"""How far it is, where letters are looked at one by one."""

from pathlib import Path

import pytest

from redrive.testing.factories import a_failure, buried
from tests.cli.conftest import Shop

GOLD = ["--filter", "payload.tier = gold"]


async def four_dead(shop: Shop) -> None:
    """Two of them with gold."""
    for number in range(4):
        tier = "gold" if number % 2 else "tin"
        payload, queue = b'{"tier": "%s"}' % tier.encode(), "email" if number else "default"
        await buried(shop.store, payload=payload, queue=queue, failure=a_failure(fingerprint="f00d" + "0" * 12))


@pytest.fixture
def terminal(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A terminal on which nothing is too short to be told of."""
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda stream: True)
    monkeypatch.setattr("redrive.cli.looking.PATIENCE", 0.0)
    shop.do(four_dead(shop))
    return shop


@pytest.mark.parametrize(
    "words",
    [
        ["list", *GOLD],
        ["groups", *GOLD],
        ["analyze", *GOLD],
        ["retry", *GOLD, "--dry-run"],
        ["discard", *GOLD, "--dry-run"],
        ["purge", *GOLD, "--dry-run"],
        ["review", *GOLD, "--reason", "look", "--yes"],
        ["edit", *GOLD, "--set", "payload.tier=tin", "--dry-run"],
        ["edit", "--all", "--set", "payload.tier=tin", "--dry-run"],
        ["regroup", "--all", "--dry-run"],
        ["export", "letters.csv"],
    ],
)
def test_a_look_into_each_letter_is_told_of_on_one_line(terminal: Shop, folder: Path, words: list[str]) -> None:
    """And the line is gone before anything else is said."""
    told = terminal.cli("dlq", *words).err
    assert "\rlooked at 4 of 4 letters\r" in told


@pytest.mark.parametrize("words", [["discard", "--filter", "queue = email", "--dry-run"], ["groups"], ["list"]])
def test_what_the_store_knows_is_not_looked_at(terminal: Shop, words: list[str]) -> None:
    """There is nothing to tell of."""
    assert "looked at" not in terminal.cli("dlq", *words).err


def test_what_is_quick_is_not_told_of(terminal: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that flashes says nothing."""
    monkeypatch.setattr("redrive.cli.looking.PATIENCE", 0.5)
    assert "looked at" not in terminal.cli("dlq", "groups", *GOLD).err


def test_a_pipe_gets_no_line(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is for people."""
    monkeypatch.setattr("redrive.cli.looking.PATIENCE", 0.0)
    shop.do(four_dead(shop))
    assert shop.cli("dlq", "discard", *GOLD, "--dry-run").err.startswith("redrive: 2 letters in 1 group")
