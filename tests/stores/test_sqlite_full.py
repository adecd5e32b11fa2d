"""A full disk: what was acknowledged is there, what was not is not, and with room again work goes on."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from redrive.errors import StoreFull
from redrive.job import Job, State
from redrive.store import Accepted, Done
from redrive.stores.sqlite import SqliteStore
from redrive.stores.sqlite.transaction import Transaction
from redrive.testing.factories import a_job, added, claimed, state_of

pytestmark = pytest.mark.anyio
SIZE = 4 * 1024 * 1024


@dataclass
class Disk:
    """A small disk where one can be mounted; elsewhere a limit of the file's pages does the same."""

    folder: Path
    mounted: bool
    store: SqliteStore

    async def fill(self) -> None:
        if self.mounted:
            await asyncio.to_thread(self._fill)
        else:
            await self.store.write(lambda tx: _limit(tx, 0))

    async def make_room(self) -> None:
        if self.mounted:
            await asyncio.to_thread((self.folder / "filler").unlink)
        else:
            await self.store.write(lambda tx: _limit(tx, 1_000))

    def _fill(self) -> None:
        with (self.folder / "filler").open("wb", buffering=0) as filler:
            while True:
                try:
                    filler.write(b"." * 4096)
                except OSError:
                    return


def _limit(tx: Transaction, more: int) -> None:
    used: Any = tx.db.execute("PRAGMA page_count").get
    tx.db.execute(f"PRAGMA max_page_count = {used + more}").fetchall()


def mount(folder: Path) -> bool:
    if os.geteuid() != 0:
        return False
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture(params=["disk", "pages"])
async def disk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Disk]:
    """Both where both can be; a store on it, open."""
    folder = tmp_path / "disk"
    await asyncio.to_thread(folder.mkdir)
    mounted = request.param == "disk" and await asyncio.to_thread(mount, folder)
    store = SqliteStore(folder / "store.db")
    await store.open()
    try:
        yield Disk(folder, mounted, store)
    finally:
        await store.close()
        if mounted:
            await asyncio.to_thread(subprocess.run, ["umount", str(folder)], check=True)


async def test_what_was_acknowledged_is_there_and_nothing_else(disk: Disk) -> None:
    """Of enqueues that run together into a full disk."""
    store = disk.store
    before = await added(store)
    await disk.fill()
    jobs = [a_job(payload=b'"' + b"x" * 50_000 + b'"') for _ in range(30)]
    answers = await asyncio.gather(*(store.jobs.add([job]) for job in jobs), return_exceptions=True)
    assert any(isinstance(answer, StoreFull) for answer in answers)
    await disk.make_room()
    for job, answer in zip(jobs, answers, strict=True):
        assert await state_of(store, job.id) == (State.READY if answer == [Accepted(job.id)] else None)
        assert answer == [Accepted(job.id)] or isinstance(answer, StoreFull)
    assert await state_of(store, before.id) == State.READY


async def test_work_goes_on_without_a_restart(disk: Disk) -> None:
    """What could not be settled is settled, what was refused is accepted, and the file is sound."""
    store = disk.store
    jobs = [await added(store) for _ in range(3)]
    held = await claimed(store, 3)
    await disk.fill()
    refused: list[Job] = []
    while not refused:
        job = a_job(payload=b'"' + b"x" * 100_000 + b'"')
        try:
            await store.jobs.add([job])
        except StoreFull:
            refused.append(job)
    await disk.make_room()
    assert await store.jobs.settle([Done(job=job) for job in held]) == frozenset()
    assert await store.jobs.add(refused) == [Accepted(job.id) for job in refused]
    assert [await state_of(store, job.id) for job in (*jobs, *refused)] == [State.DONE] * 3 + [State.READY]
    assert await store.read(lambda snapshot: snapshot.db.execute("PRAGMA integrity_check").get) == "ok"
