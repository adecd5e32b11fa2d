"""Processes that do everything at once, until they are killed.

`worker`: runs jobs, and does all duties a few letters at a time. `actor SEED`: one verb after the other, by chance.
`end`: carries on what the others have left, until no job waits, no redrive is open and no operation runs. `--plant`: in
the end a letter is edited with a bug that the test has to find.
"""

import asyncio
import random
import sys
from contextlib import suppress
from zlib import crc32

from redrive import Bury, Retry, current, immediate, operations, redrives
from redrive.duties import operator, redriver, ruler, sealer, trimmer
from redrive.errors import NotFound, Outdated, UsageError
from redrive.grouping import grouping_from
from redrive.job import new_id
from redrive.operations import carried_on, workshop_of
from redrive.query.tree import OPEN
from redrive.reshaping import Reshaper
from redrive.store import OPEN_REDRIVES, Change, Foreign, Redrive, RedriveState, Store
from redrive.testing.factories import a_failure, a_job
from redrive.triage import meant
from tests.crash.programs import worker
from tests.crash.programs.operator import in_two_moves
from tests.crash.programs.tasks import app, finish, say, tape
from tests.crash.tape import What

BACKLOG = 40
MOST_DEAD = 400
PATIENCE = 60
QUEUES = ("default", "other", "brief")
FILTERS = (
    *("queue = default", "queue = other", "queue = brief", "task = moody", "error = ValueError", "attempts >= 2"),
    *("returns >= 1", "epochs = 1", "reason = network", "priority >= 5", "payload.n < 5", "payload.n >= 5"),
)
ERRORS = (ConnectionError, ValueError, Bury, TimeoutError, KeyError)


@app.task(name="moody", retry=Retry(2, backoff=immediate()))
async def moody(n: int, edits: list[str]) -> None:
    """In each epoch another cause, or none; `edits` says what was done to its payload."""
    say(What.STARTED)
    ctx = current()
    mood = crc32(f"{ctx.job.id}{ctx.epoch}{ctx.attempt // 2}".encode()) % 8
    if mood < len(ERRORS) and ctx.epoch < 9:
        raise ERRORS[mood]("moody")
    await asyncio.sleep(0.001 * n)  # sleep: so that some run while others look
    finish()


class Actor:
    """One who does what people do, all of it, in any order."""

    def __init__(self, store: Store, chance: random.Random) -> None:
        self._store = store
        self._chance = chance
        self._verbs = [
            *(self.enqueue, self.enqueue, self.enqueue, self.retry, self.retry, self.retry, self.change_redrive),
            *(self.discard, self.restore, self.purge, self.edit, self.edit, self.edit_one, self.undo, self.regroup),
            *(self.review, self.reviewed, self.cancel_operation, self.cancel_job, self.move, self.look, self.export),
            *(self.prove, self.take_in, self.revive, self.mark, self.carry_on, self.dispose_some),
        ]

    async def act(self) -> None:
        """One verb; what is refused with a sentence was too late, or not meant so."""
        with suppress(UsageError, NotFound, Outdated):
            await self._chance.choice(self._verbs)()

    # jobs -----------------------------------------------------------------------------------------------------------

    async def enqueue(self) -> None:
        depths = await self._store.jobs.depth()
        if sum(each.ready for each in depths) > BACKLOG or sum(each.dead for each in depths) > MOST_DEAD:
            return
        for _ in range(self._chance.randint(1, 12)):
            id = new_id()
            tape.write(What.UNKNOWN, id)
            queue, priority = self._chance.choice(QUEUES), self._chance.choice([2, 5, 8])
            payload = {"n": self._chance.randrange(10), "edits": []}
            await app.aenqueue("moody", payload, id=id, queue=queue, priority=priority)
            tape.write(What.ACCEPTED, id)

    async def take_in(self) -> None:
        foreign = []
        for _ in range(self._chance.randint(1, 4)):
            job = a_job(task="moody", payload=b'{"n":1,"edits":[]}', queue=self._chance.choice(QUEUES))
            now = app.clock.now()
            failure = a_failure(at=now - 5_000_000, epoch=1, attempt=1)
            why = self._chance.choice([None, "from elsewhere"])
            foreign.append(Foreign(job=job, failures=(failure,), first_failed_at=failure.at, review=why))
            tape.write(What.UNKNOWN, job.id)
        await self._store.letters.take_in(foreign, "chaos")
        for each in foreign:
            tape.write(What.ACCEPTED, each.job.id)

    async def cancel_job(self) -> None:
        await self._store.jobs.cancel(await self._ids("state = redriven", 3), "chaos")

    async def move(self) -> None:
        queue, to = self._chance.sample(QUEUES, 2)
        await self._store.jobs.move(queue, to, "chaos", 5)

    # redrives -------------------------------------------------------------------------------------------------------

    async def retry(self) -> None:
        options = redrives.Options(all=True, actor="chaos", reason=new_id(), wait=self._chance.random() < 0.3)
        options |= self._chance.choice(
            [
                *(redrives.Options(), redrives.Options(order="oldest", limit=20), redrives.Options(rate="50/s")),
                *(redrives.Options(ramp=[1, 3], stop_at=0.9), redrives.Options(queue="other", priority=8)),
                *(redrives.Options(set=["payload.n=2"]), redrives.Options(parallel=3, keep_attempts=True)),
                redrives.Options(patch=[{"op": "add", "path": "/edits/-", "value": options["reason"]}]),
                redrives.Options(when_release=self._chance.choice([">= 1", ">= 9"])),
                redrives.Options(force=True, ramp=False, stop_at=False, max_attempts=1),
            ]
        )
        await app.aredrive(self._filter(), **options)

    async def change_redrive(self) -> None:
        for redrive in await self._store.redrives.find(OPEN_REDRIVES):
            wishes: list[RedriveState] = ["paused", "running", "running", "cancelled"]
            wish = self._chance.choice(wishes)
            await self._store.redrives.change(redrive.id, redrive.version, wish, "chaos", "by chance")

    async def revive(self) -> None:
        await self._store.letters.revive(await self._ids("", 3), "chaos", "")

    # letters --------------------------------------------------------------------------------------------------------

    async def discard(self) -> None:
        await app.letters.adiscard(self._filter(), reason="chaos")

    async def restore(self) -> None:
        await app.letters.arestore(self._filter(), reason="chaos")

    async def purge(self) -> None:
        await app.letters.apurge(self._filter() + self._chance.choice(["", " and state = discarded"]), reason="chaos")

    async def dispose_some(self) -> None:
        letters, some = self._store.letters, await self._ids("state in (open, closed, discarded, redriven)", 3)
        await self._chance.choice([letters.discard, letters.restore, letters.purge])(some, "chaos", "some")

    async def edit(self) -> None:
        tag = new_id()
        patch = [{"op": "add", "path": "/edits/-", "value": tag}]
        await app.letters.aedit_all(self._filter(), patch=patch, reason=tag)

    async def edit_one(self) -> None:
        for id in await self._ids("", 1):
            letter = await app.letters.aget(id)
            if letter is not None:
                await app.letters.aedit(id, {"n": 3, "edits": []}, version=letter.version, reason="one")

    async def undo(self) -> None:
        edits = [each.id for each in await self._store.operations.find() if each.verb == "edit"]
        if edits:
            await app.letters.aundo(self._chance.choice(edits), reason=new_id())

    async def regroup(self) -> None:
        when, group = self._chance.choice(FILTERS[3:5]), f"g{self._chance.randrange(3)}"
        rules = ({"when": when, "group": group},) if self._chance.random() < 0.7 else ()
        grouping_from(rules)
        change = Change(rules=rules)
        filter = self._filter()
        tree = operations.to_regroup(filter, app.clock.now(), all=not filter)
        operation = await self._store.operations.open("regroup", tree, "chaos", "", change=change)
        await carried_on(self._store, operation, workshop_of(app))

    async def review(self) -> None:
        await app.letters.areview(reason="look at it", filter=self._filter())

    async def reviewed(self) -> None:
        await app.letters.areview(filter=self._filter())

    async def mark(self) -> None:
        groups = [f"group:{each.fingerprint}" for each in await app.letters.agroups()]
        for group in self._chance.sample(groups, min(2, len(groups))):
            match self._chance.randrange(4):
                case 0:
                    await app.letters.anote(group, "chaos")
                case 1:
                    await app.letters.aassign(group, "chaos")
                case 2:
                    await app.letters.aclose(group)
                case _:
                    await app.letters.amute(group, 1)

    # whoever looks, and whoever goes on -----------------------------------------------------------------------------

    async def carry_on(self) -> None:
        for operation in (await self._store.operations.find(["running"]))[:2]:
            await carried_on(self._store, operation, workshop_of(app))

    async def cancel_operation(self) -> None:
        for operation in (await self._store.operations.find(["running"]))[:1]:
            await self._store.operations.cancel(operation.id, "chaos")

    async def look(self) -> None:
        await self._store.letters.find(OPEN, None, 50)
        await self._store.letters.totals()
        await app.letters.agroups(self._filter())
        for redrive in await self._store.redrives.find():
            await redrives.report(self._store, app.clock, redrive.id)

    async def export(self) -> None:
        async for letter in app.letters.afind(self._filter() + " and state in (open, closed, discarded, redriven)"):
            assert letter.failures, letter

    async def prove(self) -> None:
        proof = await self._store.journal.prove()
        assert proof.adds_up, proof

    def _filter(self) -> str:
        return self._chance.choice(FILTERS)

    async def _ids(self, filter: str, n: int) -> list[str]:
        page = await self._store.letters.find(meant(filter, app.clock.now()), None, 100)
        ids = [letter.id for letter in page.letters]
        return self._chance.sample(ids, min(n, len(ids)))


async def act(seed: str) -> None:
    """Verb after verb."""
    actor = Actor(await app.opened(), random.Random(seed))
    while True:
        await actor.act()


async def edit_behind_the_back(store: Store) -> None:
    """The planted bug: a letter is edited in a transaction of its own, before the operation knows of it."""
    actor = Actor(store, random.Random(0))
    while not await store.letters.count(OPEN):
        await actor.take_in()
    step, store.operations.step = store.operations.step, in_two_moves(store)  # type: ignore[method-assign,assignment]  # a store is not meant to be changed
    change = Change(patch=[{"op": "add", "path": "/edits/-", "value": "planted"}], force=True)
    operation = await store.operations.open("edit", OPEN, "chaos", "planted", change=change)
    await carried_on(store, operation, workshop_of(app))
    store.operations.step = step  # type: ignore[method-assign]  # as above


async def end(*, planted: bool) -> None:
    """Go on with what is there until all of it has ended; what is paused goes on, or is cancelled."""
    store = await app.opened()
    if planted:
        await edit_behind_the_back(store)
    async with asyncio.timeout(PATIENCE), app.worker():
        for operation in await store.operations.find(["running"], 10_000):
            await carried_on(store, operation, workshop_of(app))
        while found := await store.redrives.find(OPEN_REDRIVES):
            for redrive in found:
                await _towards_the_end(store, redrive)
        await worker.drained(PATIENCE)
        while await store.journal.seal(1_000):
            pass
        for group in await store.letters.groups():
            sample = await store.letters.get(group.sample)
            assert not group.count or (sample and (sample.group, sample.state) == (group.fingerprint, "open")), group
    await app.aclose()


async def _towards_the_end(store: Store, redrive: Redrive) -> None:
    if redrive.state in ("paused", "waiting"):
        wish: RedriveState = "running" if crc32(redrive.id.encode()) % 2 else "cancelled"
        await store.redrives.change(redrive.id, redrive.version, wish, "chaos")
    elif rest := await redrives.drive(store, app.clock, redrive.id, Reshaper(app)):
        await asyncio.sleep(min(rest / 1_000_000, 0.02))  # sleep: until its jobs have done some of it


def a_few_at_a_time() -> None:
    """So that there are many moments between two transactions of one thing."""
    operations.CHUNK, operations.WHOLE, operations.STILL = 7, 5, 200_000
    redrives.CHUNK, redrives.RESHAPED, redrives.LOOK = 6, 4, 20_000
    ruler.CHUNK, ruler.REST, ruler.PAUSE, ruler.SHARE = 9, 200_000, 500_000, 1
    redriver.REST = operator.REST = sealer.REST = trimmer.REST = 200_000
    sealer.LIMIT, trimmer.LIMIT = 50, 9


if __name__ == "__main__":
    a_few_at_a_time()
    role = sys.argv.pop(1)
    if role == "worker":
        worker.main()
    else:
        asyncio.run(end(planted="--plant" in sys.argv) if role == "end" else act(sys.argv[1]))
