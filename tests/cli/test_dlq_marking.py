"""`redrive dlq assign`, `note`, `mute` and `close`, and what the other verbs show of it."""

import pytest

from redrive.testing.factories import a_failure, buried
from tests.cli.conftest import Shop

LETTER = "01950000-0000-7000-8000-0000000000a0"
GROUP, SECOND = "cafe000000000000", "f00d000000000000"


async def two_causes(shop: Shop) -> None:
    """Two letters of one cause, one of another."""
    for id, group in ((LETTER, GROUP), (LETTER[:-1] + "1", GROUP), (LETTER[:-1] + "2", SECOND)):
        await buried(shop.store, id=id, failure=a_failure(at=shop.clock.now(), fingerprint=group, attempt=1))


@pytest.fixture
def dead(shop: Shop) -> Shop:
    """A shop with three letters."""
    shop.do(two_causes(shop))
    return shop


def test_a_group_is_assigned(dead: Shop) -> None:
    """Its letters are found by its owner, and the table has a column for it."""
    answer = dead.cli("dlq", "assign", "cafe", "--to", "alice")
    assert (answer.code, answer.out, answer.err) == (0, "", "redrive: 1 group assigned to alice\n")
    assert len(dead.cli("dlq", "list", "--filter", "owner = alice", "--json").json) == 2
    head, first, second = dead.cli("dlq", "groups").out.splitlines()
    assert head.split() == ["GROUP", "LETTERS", "LAST", "FIRST", "STATE", "OWNER", "TASK", "CAUSE"]
    assert ("alice" in first, "alice" in second) == (True, False)
    [shape] = dead.cli("dlq", "assign", "group:cafe", "letter:a2", "--nobody", "--json").json
    assert shape == {"groups": [GROUP], "letters": [LETTER[:-1] + "2"], "owner": None}
    assert dead.cli("dlq", "list", "--filter", "owner is not null", "--json").json == []


def test_a_note_is_shown_with_letter_and_group(dead: Shop) -> None:
    """With who wrote it; filters look into it."""
    answer = dead.cli("dlq", "note", "cafe", "--text", "the relay was down")
    assert (answer.code, answer.err) == (0, "redrive: noted on 1 group\n")
    assert dead.cli("dlq", "note", "000000a0", "--text", "ask anna", "--json").json[0]["letters"] == [LETTER]
    story = dead.cli("dlq", "show", "a0").out
    assert "note on its group by " in story
    assert ": the relay was down\n" in story
    assert ": ask anna\n" in story
    assert story.count("ask anna") == 1
    page = dead.cli("dlq", "show", "group:cafe").out
    assert page.startswith(f"group {GROUP} email.send  open\n")
    assert ": the relay was down\n" in page
    [shape] = dead.cli("dlq", "show", "group:cafe", "--json").json
    assert [note["text"] for note in shape["notes"]] == ["the relay was down"]
    assert [row["id"] for row in dead.cli("dlq", "list", "--filter", "note ~ ANNA", "--json").json] == [LETTER]


def test_a_muted_group_is_only_counted(dead: Shop) -> None:
    """Until its time is over, or it is shown again."""
    answer = dead.cli("dlq", "mute", "cafe", "--for", "2h", "--reason", "known")
    assert answer.err == (
        f"redrive: group {GROUP} is muted until 2026-01-01T02:00:00.000Z (in 2h); it has 2 open letters\n"
    )
    shown = dead.cli("dlq", "groups")
    assert (GROUP[:8] in shown.out, SECOND[:8] in shown.out) == (False, True)
    assert shown.err == "redrive: 1 muted group not shown; --muted shows all\n"
    assert "muted 2h" in dead.cli("dlq", "groups", "--muted").out
    assert [row["state"] for row in dead.cli("dlq", "groups", "--json").json] == ["muted", "open"]
    dead.clock.advance("2h")
    assert GROUP[:8] in dead.cli("dlq", "groups").out
    assert dead.cli("dlq", "mute", "cafe", "--json").json[0]["state"] == "muted"
    assert dead.cli("dlq", "mute", "cafe", "--off", "--json").json[0]["state"] == "open"


def test_a_closed_group_is_reopened_by_a_new_letter(dead: Shop) -> None:
    """And the story of that letter says so."""
    answer = dead.cli("dlq", "close", "cafe", "--release", "2.4.1")
    assert answer.err == f"redrive: group {GROUP} is closed in release 2.4.1; it has 2 open letters\n"
    again = LETTER[:-1] + "3"
    dead.do(buried(dead.store, id=again, failure=a_failure(at=dead.clock.now(), fingerprint=GROUP)))
    assert dead.cli("dlq", "show", "group:cafe", "--json").json[0]["state"] == "reopened"
    story = " ".join(dead.cli("dlq", "show", "a3").out.split())
    assert f"its group was opened again: group {GROUP}, which was closed in release 2.4.1, has a new letter" in story
    assert dead.cli("dlq", "close", "cafe", "--reopen", "--json").json[0]["state"] == "open"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ("assign cafe", 2, "say either --to WHO or --nobody"),
        (
            "assign beef --to a",
            5,
            "there is no group and no letter 'beef'; `redrive dlq groups` and `redrive dlq list` show what there is",
        ),
        (
            "note 000000a --text x",
            5,
            "there is no group and no letter '000000a'; `redrive dlq groups` and `redrive dlq list` show what there is",
        ),
        (
            "note xyz --text x",
            2,
            (
                "'xyz' names nothing; write hex digits as `redrive dlq groups` shows them, such as group:3f2a or "
                "letter:5a1f01c2"
            ),
        ),
        ("mute letter:a0", 2, "'letter:a0' is a letter, and this is done to groups; `redrive dlq groups` shows them"),
        ("mute cafe --off --for 2h", 2, "--off shows groups again; leave out --for and --until"),
        ("close cafe --reopen --release 2", 2, "--reopen opens groups; leave out --release"),
    ],
)
def test_what_cannot_be_meant_is_said(dead: Shop, words: str, code: int, sentence: str) -> None:
    answer = dead.cli("dlq", *words.split())
    assert (answer.code, answer.out, answer.err) == (code, "", f"redrive: {sentence}\n")


def test_a_name_of_both_is_asked_about(dead: Shop) -> None:
    """The beginning of a group's name that is the end of an id, too."""
    both = LETTER[:-4] + "cafe"
    dead.do(buried(dead.store, id=both))
    answer = dead.cli("dlq", "note", "cafe", "--text", "x")
    assert (answer.code, answer.err) == (
        2, f"redrive: 'cafe' may be several: group:{GROUP}, letter:{both}; type one of these, or more of it\n"
    )  # fmt: skip


@pytest.mark.parametrize("text", ["", "  ", "a\0b", "x" * 10_001])
def test_a_note_that_cannot_be_kept_is_refused(dead: Shop, text: str) -> None:
    answer = dead.cli("dlq", "note", "cafe", "--text", text)
    assert (answer.code, answer.err.startswith("redrive: write a note of 1 to 10,000 characters")) == (2, True)
