"""`redrive dlq edit`: by place, by patch, in an editor; checked, optimistic, with the original kept."""

import sys
from pathlib import Path

import pytest

from redrive.store import Edit
from redrive.testing.factories import a_failure, buried, live
from tests.cli.conftest import Cli, Shop

ID = "01950000-0000-7000-8000-0000000000a0"


@pytest.fixture
def dead(shop: Shop) -> Shop:
    """A shop with a letter whose address is wrong."""
    shop.do(
        buried(
            shop.store,
            id=ID,
            failure=a_failure(at=shop.clock.now(), attempt=1),
            payload=b'{"to":"a@b","template":"s3cr3t"}',
        )
    )
    return shop


def payload(shop: Shop) -> bytes:
    return shop.do(live(shop.store, ID)).payload


def test_a_value_is_set(dead: Shop) -> None:
    """The difference is shown, and `show` has both."""
    answer = dead.cli("dlq", "edit", "a0", "--set", "payload.to=c@d", "--reason", "a typo")
    assert (answer.code, answer.err) == (0, "redrive: letter 000000a0 has payload version 2\n")
    assert '-  "to": "a@b",\n+  "to": "c@d",\n' in answer.out
    assert payload(dead) == b'{"to":"c@d","template":"s3cr3t"}'
    story = dead.cli("dlq", "show", "a0").out
    assert '  payload   {"to":"c@d","template":"s3cr3t"}\n  original  {"to":"a@b","template":"s3cr3t"}\n' in story
    assert "payload version 2: a typo" in " ".join(story.split())
    [shape] = dead.cli("dlq", "show", "a0", "--json").json
    assert shape["payload_version"] == 2
    assert [one["payload"] for one in shape["replaced"]] == [{"to": "a@b", "template": "s3cr3t"}]


def test_a_patch_is_applied(dead: Shop, folder: Path) -> None:
    """From a file, or from stdin."""
    (folder / "fix.json").write_text('[{"op": "replace", "path": "/to", "value": "c@d"}]')
    [shape] = dead.cli("dlq", "edit", "a0", "--patch", "fix.json", "--json").json
    assert (shape["id"], shape["payload_version"], shape["changed"]) == (ID, 2, True)
    assert dead.cli("dlq", "edit", "a0", "--patch", "-", input='[{"op":"remove","path":"/template"}]').code == 0
    assert payload(dead) == b'{"to":"c@d"}'


def test_a_dry_run_changes_nothing(dead: Shop) -> None:
    """Nor does a payload that is the same."""
    answer = dead.cli("dlq", "edit", "a0", "--set", "payload.to=c@d", "--dry-run")
    assert (answer.code, answer.err) == (0, "redrive: nothing was changed\n")
    assert '+  "to": "c@d",\n' in answer.out
    same = dead.cli("dlq", "edit", "a0", "--set", "payload.to=a@b")
    assert (same.code, same.out, same.err) == (0, "", "redrive: the payload is the same; nothing was changed\n")
    assert dead.cli("dlq", "show", "a0", "--json").json[0].get("replaced") is None


def editor(folder: Path, program: str) -> str:
    """An editor that runs this on the file's text."""
    path = folder / "editor.py"
    path.write_text(
        f"import sys\nfrom pathlib import Path\npath = Path(sys.argv[-1])\ntext = path.read_text()\n"
        f"Path('seen').write_text(str(path))\npath.write_text({program})\n"
    )
    return f"{sys.executable} {path}"


def test_an_editor_is_opened(dead: Shop, folder: Path) -> None:
    """The file is for nobody else, and gone afterwards."""
    answer = dead.cli("dlq", "edit", "a0", EDITOR=editor(folder, "text.replace('a@b', 'é@d')"))
    assert (answer.code, answer.err) == (0, "redrive: letter 000000a0 has payload version 2\n")
    assert payload(dead) == '{"to":"é@d","template":"s3cr3t"}'.encode()
    assert not Path((folder / "seen").read_text()).exists()
    same = dead.cli("dlq", "edit", "a0", EDITOR=editor(folder, "text"))
    assert (same.code, same.err) == (0, "redrive: the payload is the same; nothing was changed\n")


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("text[1:]", "what you wrote is no JSON; correct it, or change single places with --set"),
        ("text.replace('to', 'too')", "task email.send: "),
    ],
)
def test_what_was_written_in_vain_is_kept(dead: Shop, folder: Path, program: str, sentence: str) -> None:
    """For another try."""
    answer = dead.cli("dlq", "edit", "a0", EDITOR=editor(folder, program))
    kept = Path((folder / "seen").read_text())
    assert answer.code == 2
    assert answer.err.startswith(
        f"redrive: nothing was changed, and what you wrote is still in {kept}\nredrive: {sentence}"
    )
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.unlink()
    assert payload(dead) == b'{"to":"a@b","template":"s3cr3t"}'


def test_it_is_checked_against_the_signature(dead: Shop) -> None:
    """What the handler would not take is refused."""
    answer = dead.cli("dlq", "edit", "a0", "--set", "payload.tempalte=x")
    assert (answer.code, answer.out) == (2, "")
    assert "task email.send: got an unexpected keyword argument 'tempalte'" in answer.err
    assert payload(dead) == b'{"to":"a@b","template":"s3cr3t"}'


def test_without_the_task_it_says_that_nothing_was_checked(dead: Shop) -> None:
    dead.do(buried(dead.store, id=ID[:-1] + "1", task="elsewhere", failure=a_failure(at=dead.clock.now())))
    answer = dead.cli("dlq", "edit", "a1", "--set", "payload.any=1")
    assert answer.code == 0
    assert answer.err.startswith(
        "redrive: not checked against a signature: no app that knows task elsewhere is named here (--app)\n"
    )


def test_a_second_edit_is_refused_loudly(dead: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else was quicker; their payload stays."""
    edit = dead.store.letters.edit

    async def late(*given: object) -> object:
        await edit([Edit(ID, 1, b'{"to":"first@b"}')], "bob", "")
        return await edit(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(dead.store.letters, "edit", late)
    answer = dead.cli("dlq", "edit", "a0", "--set", "payload.to=second@b")
    assert answer.code == 1
    assert answer.err == (
        "redrive: letter 000000a0 was not edited: it has changed since it was read (version 1, now 2); "
        "look at it again and repeat your edit\n"
    )
    assert payload(dead) == b'{"to":"first@b"}'


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ("a0 --set to=5", 2, "--set 'to=5' names no place in the payload; write payload.user.email=a@b.c"),
        ("a0 --set payload.to=5 --patch x", 2, "--set and --patch exclude each other; give one of them"),
        (
            "a0 --set payload.to=\udcff",
            2,
            (
                "the payload cannot be written as JSON: it holds half of a character (a lone surrogate); "
                "clean the text, as with text.encode(errors='replace').decode()"
            ),
        ),
        ("a0 --patch none.json", 2, "none.json cannot be read: No such file or directory; name another file"),
        ("a0 --patch bad.json", 2, "bad.json holds no JSON; write a JSON Patch into it"),
        ("a0", 2, "there is no terminal and no $EDITOR; change it with --set or --patch"),
        ("ff --set payload.to=5", 5, "no letter ends with ff; `redrive dlq list` shows the last ones"),
    ],
)
def test_what_cannot_be_done_is_said(dead: Shop, folder: Path, words: str, code: int, sentence: str) -> None:
    (folder / "bad.json").write_text("{")
    answer = dead.cli("dlq", "edit", *words.split(), EDITOR="", VISUAL="")
    assert (answer.code, answer.out, answer.err) == (code, "", f"redrive: {sentence}\n")


def test_a_letter_that_is_not_open_is_not_edited(dead: Shop, cli: Cli) -> None:
    assert dead.cli("dlq", "discard", "a0", "--yes").code == 0
    answer = dead.cli("dlq", "edit", "a0", "--set", "payload.to=c@d")
    assert (answer.code, "it is discarded, not open" in answer.err) == (1, True)
