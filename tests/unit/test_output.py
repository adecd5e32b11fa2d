"""What a child prints is passed on in lines, and its end is kept."""

import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from redrive.runners.output import KEPT_LINES, Output
from tests.waiting import until


class Pipe:
    """A child's output without the child."""

    def __init__(self) -> None:
        reading, self.writing = os.pipe()
        self.passed = b""
        self.calls: list[bytes] = []
        self.output = Output(reading, self._forward)

    def _forward(self, lines: bytes) -> None:
        self.calls.append(lines)
        self.passed += lines

    def write(self, text: bytes) -> None:
        os.write(self.writing, text)

    def close(self) -> None:
        with suppress(OSError):
            os.close(self.writing)
        self.output.finish(5)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    opened = Pipe()
    yield opened
    opened.close()


def test_lines_are_passed_on_whole(pipe: Pipe) -> None:
    """Two children that print at once do not tear each other's lines."""
    pipe.write(b"one\ntw")
    until(lambda: pipe.passed == b"one\n")
    pipe.write(b"o\n")
    until(lambda: pipe.passed == b"one\ntwo\n")
    assert all(lines.endswith(b"\n") for lines in pipe.calls)


def test_the_last_line_is_passed_on_without_its_end(pipe: Pipe) -> None:
    """A process that dies in the middle of a line has said it all the same."""
    pipe.write(b"dying wo")
    pipe.close()
    assert pipe.passed == b"dying wo\n"


def test_a_line_without_end_is_passed_on_in_pieces(pipe: Pipe) -> None:
    """A progress bar that never breaks its line does not grow in memory."""
    for _ in range(40):
        pipe.write(b"." * 4096)
    until(lambda: len(pipe.passed) > 64 * 1024)


def test_the_last_lines_are_kept(pipe: Pipe) -> None:
    """As many as an autopsy needs."""
    pipe.write(b"".join(b"line %d\n" % number for number in range(100)))
    pipe.close()
    kept = pipe.output.tail().splitlines()
    assert kept == [f"line {number}" for number in range(100 - KEPT_LINES, 100)]


def test_a_mark_parts_the_output_of_one_job_from_the_next(pipe: Pipe) -> None:
    """What an earlier job printed is not among the last words of a later one."""
    pipe.write(b"from the first\n")
    until(lambda: pipe.output.tail())
    pipe.output.mark()
    pipe.write(b"from the second\n")
    until(lambda: pipe.output.tail())
    assert pipe.output.tail() == "from the second"


def test_bytes_that_are_no_text_can_be_kept(pipe: Pipe) -> None:
    """A crash prints what it likes."""
    pipe.write(b"\xff\xfe broken\n")
    pipe.close()
    assert pipe.output.tail().endswith("broken")


def test_a_flood_does_not_make_the_writer_wait(pipe: Pipe) -> None:
    """Much more than a pipe holds goes through."""
    line = b"x" * 99 + b"\n"
    for _ in range(50_000):
        pipe.write(line)
    pipe.close()
    assert len(pipe.passed) == 5_000_000


def test_reading_goes_on_when_our_own_stderr_is_closed() -> None:
    """A child must not stand still because the worker's terminal is gone."""
    reading, writing = os.pipe()

    def gone(lines: bytes) -> None:
        raise BrokenPipeError

    output = Output(reading, gone)
    for _ in range(100):
        os.write(writing, b"x" * 4095 + b"\n")
    os.write(writing, b"the end\n")
    os.close(writing)
    output.finish(5)
    assert output.tail().endswith("the end")


def test_the_end_does_not_wait_for_a_descendant_that_holds_the_pipe(pipe: Pipe) -> None:
    """Someone who has left the group of the dead may hold it for ever."""
    pipe.write(b"last words\n")
    held = os.dup(pipe.writing)
    try:
        pipe.close()
        assert pipe.output.tail() == "last words"
        assert pipe.passed == b"last words\n"
    finally:
        os.close(held)
