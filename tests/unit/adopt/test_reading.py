"""Records out of files, whatever has become of them."""

import io
import json
import random
from pathlib import Path

import pytest

from redrive.adopt.letters import Fault, NotDead, Wanted, letter_of
from redrive.adopt.reading import Bad, Record, read_path, read_stream
from redrive.errors import UsageError
from redrive.store import Foreign

ROWS = [
    {
        "job_id": f"7c2f9a52-6e0e-4a53-9d53-0a6f0c5a1f{n:02}",
        "job_type": "t",
        "last_error": 'a "b", [{\\',
        "input_data": [n],
    }
    for n in range(6)
]
TABLE = "job_id,job_type,last_error,input_data\n" + "".join(
    f'{row["job_id"]},t,"two\nlines ""quoted""",{n}\n' for n, row in enumerate(ROWS)
)
WHOLE = [
    json.dumps(ROWS).encode(),
    json.dumps(ROWS, indent=1).encode(),
    "\n".join(map(json.dumps, ROWS)).encode(),
    "\n".join(json.dumps(row, indent=2) for row in ROWS).encode(),
    TABLE.encode(),
    b"\xef\xbb\xbf" + TABLE.replace("\n", "\r\n").encode(),
]
WANTED = Wanted(now=1_767_225_600_000_000, payload_limit=1_000_000)


def read(text: bytes) -> tuple[list[Foreign], list[str]]:
    """The letters, and what was wrong with the rest."""
    letters, wrong = [], []
    for found in read_stream(io.BytesIO(text)):
        if isinstance(found, Bad):
            wrong.append(found.why)
            continue
        try:
            letters.append(letter_of(found, WANTED))
        except (NotDead, *Fault) as fault:
            wrong.append(str(fault))
    return letters, wrong


@pytest.mark.parametrize("text", WHOLE)
def test_the_same_records_in_any_form(text: bytes) -> None:
    letters, wrong = read(text)
    assert ([letter.job.id for letter in letters], wrong) == ([row["job_id"] for row in ROWS], [])


@pytest.mark.parametrize("text", WHOLE)
def test_a_damaged_file_is_never_an_unexpected_error(text: bytes) -> None:
    """Bytes taken out, put in and changed by chance, 300 times: letters, sentences, or one refusal."""
    chance = random.Random(len(text))
    ended = set()
    for _ in range(300):
        damaged = bytearray(text)
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(damaged))
            piece = chance.choice([b"", b'"', b"\\", b"[", b"}", b",", b"\n", b"\r", b"\0", b"\xff", b"\xef\xbb\xbf"])
            damaged[at : at + chance.randrange(4)] = piece
        try:
            letters, wrong = read(bytes(damaged))
        except UsageError:
            ended.add("refused")
        else:
            ended.add("letters" if letters else "none")
            ended |= {"wrong"} if wrong else set()
    assert {"letters", "wrong"} <= ended


def test_a_record_knows_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(TABLE.encode())
    assert [found.place for found in read_path(path)] == [f"line {n}" for n in range(2, 14, 2)]


def test_items_beside_an_index_know_their_workflow(tmp_path: Path) -> None:
    """And a directory of something else has its own."""
    (tmp_path / "items").mkdir()
    (tmp_path / "items" / "b.json").write_bytes(b'\xef\xbb\xbf{"item_data": 1}')
    (tmp_path / "items" / "notes.txt").write_text("not an item")
    (tmp_path / "index.json").write_text('{"job_id": "w", "item_ids": ["b"]}')
    for place in (tmp_path, tmp_path / "items"):
        [found] = read_path(place)
        assert isinstance(found, Record)
        assert (found.stem, found.workflow, found.value) == ("b", "w", {"item_data": 1})
