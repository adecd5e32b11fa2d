"""Jobs out of the lines of a file, in bounded memory: what was enqueued is always said, also when a line is wrong."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from redrive.cli.faults import EXIT_PARTLY
from redrive.cli.output import counted, emit, say
from redrive.client import Enqueued
from redrive.errors import PayloadTooLarge, RedriveError
from redrive.job import Job, decode
from redrive.options import Options

if TYPE_CHECKING:
    from redrive.app import Redrive

CHUNK = 256 * 1024
BATCH = 500
SLACK = 4
"""A line may be so many times as long as the payload limit: blanks in it do not count once it is read."""

_MARK = b"\xef\xbb\xbf"

Line = tuple[int, bytes]


class Filling:
    """One run of `enqueue --from`."""

    def __init__(self, app: "Redrive", task: str, options: dict[str, Any], as_json: bool) -> None:
        self._app = app
        self._task = task
        self._options = options
        self._as_json = as_json
        self._created = 0
        self._there = 0

    async def run(self, file: BinaryIO, name: str) -> int:
        """Add a job for each line; at the first that cannot be, stop and say how far it came."""
        try:
            for lines in batches(file, SLACK * self._app.config.payload_limit):
                await self._add(lines)
        except RedriveError as error:
            self._tell()
            say(f"{'stdin' if name == '-' else name}, {error}")
            return EXIT_PARTLY if self._created or self._there else error.exit_code
        except BaseException:  # interrupted: the person wants to know all the more
            self._tell()
            raise
        finally:
            await self._app.aclose()
        self._tell()
        return 0

    async def _add(self, lines: list[Line]) -> None:
        jobs: list[tuple[int, Job]] = []
        fault: RedriveError | None = None
        for number, text in lines:
            try:
                jobs.append((number, self._job(text)))
            except RedriveError as error:
                fault = _of_line(number, error)
                break
        fault = await self._enqueue(jobs) or fault
        if fault is not None:
            raise fault

    def _job(self, text: bytes) -> Job:
        return self._app.client.named(self._task, decode(text), Options.checked(self._options))

    async def _enqueue(self, jobs: list[tuple[int, Job]]) -> RedriveError | None:
        """Add them with one commit; the fault of the first that was not accepted."""
        calls = (self._app.client.aenqueue_one(job) for _, job in jobs)
        fault: RedriveError | None = None
        for (number, _), answer in zip(jobs, await asyncio.gather(*calls, return_exceptions=True), strict=True):
            if isinstance(answer, Enqueued):
                self._count(number, answer)
            elif not isinstance(answer, RedriveError):
                raise answer
            elif fault is None:
                fault = _of_line(number, answer)
        return fault

    def _count(self, number: int, enqueued: Enqueued) -> None:
        self._created += enqueued.created
        self._there += not enqueued.created
        if self._as_json:
            emit({"line": number, "id": enqueued.id, "created": enqueued.created})

    def _tell(self) -> None:
        there = f" (and found {self._there:,} there already)" if self._there else ""
        say(f"enqueued {counted(self._created, 'job')} of {self._task}{there} in {self._app.store.url}")


def _of_line(number: int, error: RedriveError) -> RedriveError:
    """The same fault with its place; lines before it are enqueued, so one goes on from it."""
    placed = RedriveError(f"line {number}: {error}; the lines from {number} on were not enqueued")
    placed.exit_code = error.exit_code
    return placed


def batches(file: BinaryIO, longest: int) -> Iterator[list[Line]]:
    """The lines that are not empty with their numbers, as they come: a slow writer does not hold back its first."""
    number, rest = 0, b""
    while chunk := file.read1(CHUNK):  # type: ignore[attr-defined]  # every buffered stream has it
        if number == 0 and not rest:
            chunk = chunk.removeprefix(_MARK)
        *whole, rest = (rest + chunk).split(b"\n")
        for start in range(0, len(whole), BATCH):
            yield _filled(whole[start : start + BATCH], number + start)
        number += len(whole)
        if len(rest) > longest:
            raise _of_line(number + 1, PayloadTooLarge(f"it is longer than {longest:,} bytes; is it one JSON value?"))
    if rest.strip():
        yield [(number + 1, rest)]


def _filled(lines: list[bytes], before: int) -> list[Line]:
    return [(before + place, text) for place, text in enumerate(lines, 1) if text.strip()]
