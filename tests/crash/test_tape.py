"""What was written can be read, whatever was killed in the middle of it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.tape import SIZE, DamagedTape, Record, Tape, What, packed, parsed, read
from tests.waiting import until

JOB = "0199b2c4-7d1e-7c3a-9f52-3f6d5a1f01c2"
ONE = Record(What.STARTED, JOB, epoch=1, attempt=2, fence=3, pid=4, at=5)
TWO = ONE._replace(what=What.EFFECT, at=6)
ROOT = Path(__file__).parents[2]

ENDLESS = """
import sys
from pathlib import Path
from tests.crash.tape import Tape, What
tape = Tape(Path(sys.argv[1]))
while True:
    tape.write(What.STARTED, sys.argv[2], fence=7)
"""


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Every field comes back, with the process that wrote it."""
    tape = Tape(tmp_path / "tape")
    tape.write(What.STARTED, JOB, epoch=1, attempt=2, fence=3)
    tape.write(What.ACCEPTED, JOB)
    tape.close()
    first, second = read(tmp_path / "tape").records
    assert first._replace(at=5) == ONE._replace(pid=os.getpid())
    assert (second.what, second.job, second.fence) == (What.ACCEPTED, JOB, 0)
    assert first.at <= second.at


def test_a_tape_that_nobody_wrote_is_empty(tmp_path: Path) -> None:
    """No file is no record."""
    assert read(tmp_path / "tape").records == ()


@pytest.mark.parametrize("length", range(1, SIZE))
def test_a_torn_record_is_stepped_over(length: int) -> None:
    """Wherever a writer died inside its record, those before and after it are read, and the tear is told."""
    piece = packed(TWO)[:length]
    assert parsed(packed(ONE) + piece) == ((ONE,), (piece,))
    assert parsed(packed(ONE) + piece + packed(TWO)) == ((ONE, TWO), (piece,))
    assert parsed(piece + piece + packed(TWO)) == ((TWO,), (piece, piece))


def test_anything_else_is_damage() -> None:
    """The control: a flipped bit, a foreign text and a hole are no torn records."""
    flipped = bytearray(packed(TWO))
    flipped[20] ^= 1
    for damage in (bytes(flipped), b"something else", b"\0" * SIZE):
        with pytest.raises(DamagedTape):
            parsed(packed(ONE) + damage + packed(TWO))


def test_writers_that_are_killed_leave_a_tape_that_can_be_read(tmp_path: Path) -> None:
    """Two processes write as fast as they can and are killed with -9; no record of either is mixed with another's."""
    path = tmp_path / "tape"
    command = [sys.executable, "-c", ENDLESS, str(path), JOB]
    writers = [subprocess.Popen(command, cwd=ROOT) for _ in range(2)]
    try:
        until(lambda: {record.pid for record in read(path).records} == {writer.pid for writer in writers}, seconds=30)
    finally:
        for writer in writers:
            writer.kill()
    assert [writer.wait() for writer in writers] == [-signal.SIGKILL] * 2
    reading = read(path)
    assert len(reading.torn) <= len(writers)
    assert {(record.job, record.fence) for record in reading.records} == {(JOB, 7)}
