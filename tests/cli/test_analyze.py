"""`redrive dlq analyze`: causes, reasons, times, what is new, and what failures share."""

from redrive.letter import Failure
from redrive.store import Buried, Done
from redrive.testing.factories import a_failure, added, added_many, claimed, settled
from tests.cli.conftest import Shop

PAGE = """\
6 letters

causes
GROUP     LETTERS  LAST     SAMPLE    CAUSE
f00d0000        5  5m ago   {bad}  email.send: TimeoutError: the relay timed…
cafe0000        1  30h ago  {old}  thumbnail.make: ConnectionError: refused

new since yesterday
GROUP     LETTERS  LAST    SAMPLE    CAUSE
f00d0000        5  5m ago  {bad}  email.send: TimeoutError: the relay timed …

by reason
  timeout  5  ████████████████████████████████████████
  network  1  ████████

failures by hour, UTC
  2026-01-01 00:00  1  ████████
"""


def timed_out(shop: Shop) -> Failure:
    return a_failure(
        at=shop.clock.now(), reason="timeout", type="TimeoutError", fingerprint="f00d" + "0" * 12,
        title="TimeoutError: the relay timed out",
    )  # fmt: skip


async def night(shop: Shop) -> tuple[str, str]:
    """One old letter, forty successes, and five letters of gold customers; answers the samples of both causes."""
    await added(shop.store, task="thumbnail.make", payload=b'{"path":"a"}')
    [old] = await claimed(shop.store)
    refused = a_failure(at=shop.clock.now(), fingerprint="cafe" + "0" * 12, title="ConnectionError: refused")
    await settled(shop.store, Buried(job=old, failure=refused))
    shop.clock.advance("30h")
    await added_many(shop.store, 40, payload=b'{"tier":"plain","to":"x@y.z"}')
    await shop.store.jobs.settle([Done(job=job) for job in await claimed(shop.store, 40)])
    await added_many(shop.store, 5, payload=b'{"tier":"gold","to":"x@y.z","token":"s3"}')
    bad = await claimed(shop.store, 5)
    await shop.store.jobs.settle([Buried(job=job, failure=timed_out(shop)) for job in bad])
    shop.clock.advance("5m")
    return bad[0].id[-8:], old.id[-8:]


def test_the_page_shows_what_happened(shop: Shop) -> None:
    bad, old = shop.do(night(shop))
    answer = shop.cli("dlq", "analyze")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(PAGE.format(bad=bad, old=old))
    assert answer.out.count("2026-01-02 06:00  5") == 1
    assert "100 % (5/5)  0 % (0/40)  payload.tier = gold" in answer.out
    assert "no job of this task has succeeded here yet" in answer.out
    assert "s3" not in answer.out


def test_it_is_all_there_as_json(shop: Shop) -> None:
    bad, _ = shop.do(night(shop))
    [found] = shop.cli("dlq", "analyze", "--json").json
    assert (found["letters"], found["more"], found["reasons"]) == (6, False, {"timeout": 5, "network": 1})
    assert [(group["letters"], group["new"]) for group in found["groups"]] == [(5, True), (1, False)]
    assert found["groups"][0]["sample"].endswith(bad)
    assert (found["failures_by"], len(found["failures"])) == ("hour", 31)
    [email, thumbnail] = found["shares"]
    assert (email["task"], email["failed"], email["succeeded"]) == ("email.send", 5, 40)
    assert {"name": "payload.tier", "value": "gold", "failed": 5, "succeeded": 0} in email["traits"]
    assert {"name": "payload.token", "value": "***", "failed": 5, "succeeded": 0} in email["traits"]
    assert thumbnail["traits"] == []


def test_a_filter_narrows_all_of_it(shop: Shop) -> None:
    shop.do(night(shop))
    [found] = shop.cli("dlq", "analyze", "--filter", "reason = network", "--json").json
    assert (found["letters"], len(found["groups"]), len(found["shares"])) == (1, 1, 1)
    answer = shop.cli("dlq", "analyze", "--filter", "reason = lost")
    assert (answer.code, answer.out, answer.err) == (0, "", "redrive: there are no such letters in memory://shop\n")
    assert shop.cli("dlq", "analyze", "--filter", "reasn = lost").code == 2


def test_long_payloads_are_compared_by_their_size(shop: Shop) -> None:
    """On both sides: what is not kept of successes is not looked at in failures."""

    async def sized() -> None:
        await added_many(shop.store, 30, payload=b'{"to":"x","body":"%s"}' % (b"x" * 20_000))
        await shop.store.jobs.settle([Done(job=job) for job in await claimed(shop.store, 30)])
        await added_many(shop.store, 30, payload=b'{"to":"x","body":"%s"}' % (b"x" * 70_000))
        failure = a_failure(at=shop.clock.now(), host="")
        await shop.store.jobs.settle([Buried(job=job, failure=failure) for job in await claimed(shop.store, 30)])

    shop.do(sized())
    [found] = shop.cli("dlq", "analyze", "--json").json
    assert [(one["name"], one["value"]) for one in found["shares"][0]["traits"]] == [("size", "64 to 256 KiB")]


def test_nothing_in_common_is_said(shop: Shop) -> None:
    """When successes look just like the failures."""

    async def alike() -> None:
        await added_many(shop.store, 20)
        jobs = await claimed(shop.store, 20)
        await shop.store.jobs.settle([Done(job=job) for job in jobs[:10]])
        alike = a_failure(at=shop.clock.now(), host="")
        await shop.store.jobs.settle([Buried(job=job, failure=alike) for job in jobs[10:]])

    shop.do(alike())
    assert "nothing that 10 succeeded jobs of it would not have too" in shop.cli("dlq", "analyze").out
