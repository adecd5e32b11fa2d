"""`redrive dlq retry` and `redrive redrives`: what is asked, what is done, and what is told of it."""

from collections.abc import Callable

import pytest

from redrive.job import Job
from redrive.redrives import drive
from redrive.store import Buried, Done, Plan, Redrive
from redrive.testing.factories import a_failure, added_many, buried, claimed, live, wanted
from tests.cli.conftest import Cli, Shop

REFUSED, TIMED_OUT = "cafe000000000000", "f00d000000000000"
ID = "01950000-0000-7000-8000-0000000000a0"


async def letters(shop: Shop, n: int, cause: str = REFUSED, **changes: object) -> list[Job]:
    """So many of one cause."""
    await added_many(shop.store, n, **changes)
    jobs = await claimed(shop.store, n)
    failure = a_failure(at=shop.clock.now(), fingerprint=cause, title=f"cause {cause[:4]}")
    await shop.store.jobs.settle([Buried(job=job, failure=failure) for job in jobs])
    return jobs


async def opened(shop: Shop, **plan: object) -> Redrive:
    """A redrive that is frozen."""
    redrive = await shop.store.redrives.open(Plan(**plan), "alice", "fixed")  # type: ignore[arg-type]  # as the test says
    await shop.store.redrives.freeze(redrive.id, 1_000)
    return await now(shop, redrive)


async def now(shop: Shop, redrive: Redrive) -> Redrive:
    """The redrive as it is."""
    found = await shop.store.redrives.get(redrive.id)
    assert found is not None
    return found


async def worked(shop: Shop, redrive: Redrive, fails: Callable[[Job], bool] = lambda job: False) -> None:
    """Drive it to its end; its jobs are done at once, or die as they did."""
    while (rest := await drive(shop.store, shop.clock, redrive.id)) is not None:
        if rest:
            jobs = await shop.store.jobs.claim(wanted())
            failure = a_failure(epoch=2, fingerprint=REFUSED, title="cause cafe")
            await shop.store.jobs.settle(
                [Buried(job=job, failure=failure) if fails(job) else Done(job=job) for job in jobs]
            )


# --- asking -----------------------------------------------------------------------------------------------------------


def test_everything_has_to_be_asked_for(shop: Shop) -> None:
    shop.do(letters(shop, 3))
    answer = shop.cli("dlq", "retry", "--yes")
    assert (answer.code, answer.out) == (2, "")
    assert "--all" in answer.err
    assert shop.do(shop.store.redrives.find()) == []


def test_it_says_what_it_will_touch_and_wants_an_answer(shop: Shop) -> None:
    """Count, groups, oldest and newest; without a terminal only --yes is one."""
    shop.do(letters(shop, 3), letters(shop, 2, TIMED_OUT))
    answer = shop.cli("dlq", "retry", "--all")
    assert answer.code == 2
    assert "3  group cafe0000  cause cafe" in answer.err
    assert "5 open letters of 2 groups; oldest 2026-01-01T00:00:00.000Z (now)" in answer.err
    assert "add --yes" in answer.err
    assert shop.do(shop.store.redrives.find()) == []


def test_a_dry_run_changes_nothing(shop: Shop) -> None:
    shop.do(letters(shop, 40))
    answer = shop.cli("dlq", "retry", "--all", "--dry-run", "--rate", "10/s", "--limit", "32")
    assert answer.code == 0
    assert "40 open letters of 1 group, the last 32 of them" in answer.out
    assert "released in 4 stages of 1, 5, 25, 1; a group stops at more than 20% that fail as before" in answer.out
    assert "at least 3.2s" in answer.out
    [shape] = shop.cli("dlq", "retry", "--all", "--dry-run", "--json", "--no-ramp", "--no-stop").json
    assert (shape["letters"], shape["stages"], shape["stop_at"]) == (40, [40], None)
    assert shop.do(shop.store.redrives.find()) == []


def test_no_letters_are_no_fault(shop: Shop) -> None:
    answer = shop.cli("dlq", "retry", "--all", "--yes")
    assert (answer.code, answer.out) == (0, "")
    assert "there are no such letters" in answer.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ramp", "1,x"], "no stages"),
        (["--stop-at", "2"], "no share"),
        (["--rate", "fast"], "no rate"),
        (["--judge", "me"], "judge"),
        (["--filter", "reasn = x"], "reasn"),
        (["nowhere"], "no open letter has"),
        (["queue:nowhere"], "no open letter has queue 'nowhere'"),
        (["group:ffff"], "no open letter has group 'ffff'"),
    ],
)
def test_a_wrong_wish_opens_nothing(shop: Shop, words: list[str], said: str) -> None:
    shop.do(letters(shop, 1))
    named, filtered = not words[0].startswith("-"), "--filter" in words
    answer = shop.cli("dlq", "retry", *([] if named or filtered else ["--all"]), "--yes", *words)
    assert answer.code == (5 if named else 2)
    assert said in answer.err
    assert shop.do(shop.store.redrives.find()) == []


# --- what -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "filter"),
    [
        (["email"], 'queue = "email"'),
        (["cafe"], 'group = "cafe"'),
        (["000000a0"], 'id = "000000a0"'),
        (["batch-1"], 'workflow = "batch-1"'),
        (["group:f00d", "email"], 'group = "f00d" or queue = "email"'),
        (["email", "--filter", "reason = network"], '(queue = "email") and (reason = network)'),
    ],
)
def test_words_mean_groups_queues_workflows_and_letters(shop: Shop, words: list[str], filter: str) -> None:
    shop.do(
        letters(shop, 1, queue="email"),
        letters(shop, 1, TIMED_OUT, batch="batch-1"),
        buried(shop.store, id=ID, failure=a_failure(fingerprint="beef000000000000")),
    )
    assert shop.cli("dlq", "retry", *words, "--yes", "--detach").code == 0
    [redrive] = shop.do(shop.store.redrives.find())
    assert redrive.plan.filter == filter


def test_a_word_that_may_mean_two_things_is_refused(shop: Shop) -> None:
    shop.do(letters(shop, 1, queue="cafe"))
    answer = shop.cli("dlq", "retry", "cafe", "--yes")
    assert answer.code == 2
    assert "write group:cafe or queue:cafe" in answer.err


# --- doing ------------------------------------------------------------------------------------------------------------


def test_every_wish_is_in_the_plan(shop: Shop) -> None:
    shop.do(letters(shop, 3))
    answer = shop.cli(
        "dlq", "retry", "--all", "--yes", "--detach", "--reason", "fixed", "--limit", "2", "--ramp", "1,2", "--stop-at",
        "30%", "--stage-timeout", "1m", "--rate", "5/s", "--parallel", "2", "--judge", "final", "--keep-attempts",
        "--max-retries", "4", "--to-queue", "slow", "--json",
    )  # fmt: skip
    [shape] = answer.json
    [redrive] = shop.do(shop.store.redrives.find())
    assert (shape["id"], shape["state"], shape["reason"]) == (redrive.id, "freezing", "fixed")
    assert redrive.plan == Plan(
        limit=2, stages=(1, 2), stop_at=0.3, stage_timeout=60_000_000, rate=5.0, parallel=2, judge="final",
        keep_attempts=True, max_attempts=4, queue="slow",
    )  # fmt: skip
    assert f"redrive redrives watch {redrive.id[-8:]}" in answer.err


def test_the_summary_tells_how_it_ended(shop: Shop) -> None:
    """What succeeded, what was skipped and why, the stages, the causes of failure; and the exit code says it too."""
    jobs = shop.do(letters(shop, 40), letters(shop, 2, TIMED_OUT))
    gone = jobs[0]
    redrive = shop.do(opened(shop))
    shop.do(shop.store.letters.revive([gone.id], "bob", ""), shop.store.jobs.cancel([gone.id], "bob"))
    shop.do(worked(shop, redrive, lambda job: job.id != jobs[1].id))
    answer = shop.cli("redrives", "watch", redrive.id[-8:])
    assert answer.code == 3
    lines = answer.out.splitlines()
    assert lines[0].startswith(f"redrive {redrive.id[-8:]} finished")
    assert "  successful          1" in lines
    assert "         1  discarded meanwhile" in lines
    assert any(line.startswith("stopped in stage") for line in lines)
    assert any("cafe0000  yes        cause cafe" in line for line in lines)
    [shape] = shop.cli("redrives", "show", redrive.id[-8:], "--json").json
    assert shape["total_items"] == shape["successful"] + shape["failed"] + shape["skipped"] + shape["left"] == 42
    assert shape["skips"] == {"discarded meanwhile": 1}


def test_one_that_runs_through_ends_well(shop: Shop) -> None:
    shop.do(letters(shop, 30))
    redrive = shop.do(opened(shop))
    shop.do(worked(shop, redrive))
    answer = shop.cli("redrives", "resume", redrive.id[-8:])
    assert answer.code == 2
    assert "is finished and cannot be resumed" in answer.err
    assert shop.cli("redrives", "watch", redrive.id[-8:]).code == 0


def test_a_redrive_is_paused_resumed_and_cancelled(shop: Shop) -> None:
    [job] = shop.do(letters(shop, 1))
    redrive = shop.do(opened(shop))
    short = redrive.id[-8:]
    assert shop.cli("redrives", "pause", short, "--reason", "lunch").err == f"redrive: redrive {short} is paused\n"
    assert shop.do(now(shop, redrive)).why == "lunch"
    assert shop.cli("redrives", "resume", short, "--detach").code == 0
    assert shop.do(now(shop, redrive)).state == "running"
    [shape] = shop.cli("redrives", "cancel", short, "--json").json
    assert (shape["state"], shape["left"]) == ("cancelled", 1)
    assert shop.do(live(shop.store, job.id)).epoch == 1
    assert shop.cli("redrives", "pause", short).code == 2


def test_redrives_are_listed_with_who_and_why(shop: Shop) -> None:
    assert "there are no redrives" in shop.cli("redrives", "list").err
    shop.do(letters(shop, 2))
    redrive = shop.do(opened(shop))
    head, row = (line.split() for line in shop.cli("redrives", "list").out.splitlines())
    assert head == ["ID", "OPENED", "STATE", "LETTERS", "DONE", "FAILED", "SKIPPED", "LEFT", "BY", "REASON"]
    assert row == [redrive.id[-8:], "now", "running", "2", "0", "0", "0", "2", "alice", "fixed"]
    assert shop.cli("redrives", "list", "--json").json[0]["id"] == redrive.id
    assert shop.cli("redrives", "show", "ffffffff").code == 5


def test_the_letters_of_a_redrive_are_a_log(shop: Shop) -> None:
    shop.do(letters(shop, 30))
    redrive = shop.do(opened(shop))
    shop.do(worked(shop, redrive, lambda job: True))
    rows = shop.cli("redrives", "show", redrive.id, "--items", "failed", "--json").json
    assert {(row["state"], row["group"]) for row in rows} == {("recurred", REFUSED)}
    assert len(shop.cli("redrives", "show", redrive.id, "--items", "all").out.splitlines()) == 30
    assert len(shop.cli("redrives", "show", redrive.id, "--items", "pending").out.splitlines()) == 30 - len(rows)
    for one, other in (("left", "pending"), ("running", "released")):
        asked = ("redrives", "show", redrive.id, "--items")
        assert shop.cli(*asked, one).out == shop.cli(*asked, other).out


def test_a_page_of_help_is_there(cli: Cli) -> None:
    for words in (["dlq", "retry"], ["redrives"]):
        assert cli(*words, "--help").code == 0
