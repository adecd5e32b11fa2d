"""What a type checker knows of the public names; read by mypy, never run.

Each `type: ignore` is a claim: mypy reports it when the line is not the error that it names.
"""

from typing import assert_type

from redrive import BURY, Redrive, Retry, exponential

app = Redrive("memory://")


@app.task
def bare(path: str, width: int = 200) -> dict[str, int]:
    return {path: width}


@app.task(queue="email", timeout="30s", retry=Retry(5, backoff=exponential(base="1s", cap="5m"), on={ValueError: BURY}))
async def send(to: str, *, template: str = "welcome") -> int:
    return len(to + template)


async def a_task_is_still_its_function() -> None:
    assert_type(bare("a.png", width=3), dict[str, int])
    assert_type(await send("a@b.c"), int)
    bare(3)  # type: ignore[arg-type]
    bare()  # type: ignore[call-arg]


def enqueue_has_the_signature_of_the_function() -> None:
    assert_type(bare.enqueue("a.png").id, str)
    assert_type(send.enqueue("a@b.c", template="bye").created, bool)
    bare.enqueue("a.png", 3)
    bare.enqueue("a.png", "wide")  # type: ignore[arg-type]
    bare.enqueue("a.png", height=3)  # type: ignore[call-arg]
    send.enqueue("a@b.c", "bye")  # type: ignore[call-arg]
    send.enqueue()  # type: ignore[call-arg]


async def aenqueue_has_it_too() -> None:
    assert_type((await send.aenqueue("a@b.c")).id, str)
    assert_type((await bare.aenqueue("a.png", width=3)).id, str)
    await send.aenqueue(3)  # type: ignore[arg-type]
    await bare.aenqueue("a.png", height=3)  # type: ignore[call-arg]


async def options_do_not_blur_it() -> None:
    urgent = send.using(priority="high", delay="60s", key="welcome-7")
    assert_type(urgent.enqueue("a@b.c", template="bye").id, str)
    assert_type((await urgent.aenqueue("a@b.c")).id, str)
    urgent.enqueue("a@b.c", subject="x")  # type: ignore[call-arg]
    await urgent.aenqueue(3)  # type: ignore[arg-type]


async def many_take_jobs_and_nothing_else() -> None:
    app.enqueue_many(bare.job(f"{n}.png") for n in range(3))
    await app.aenqueue_many([send.job("a@b.c")])
    send.job(3)  # type: ignore[arg-type]
    await app.aenqueue_many(["a@b.c"])  # type: ignore[list-item]


def a_task_takes_known_options_only() -> None:
    app.task(queue="x", colour="red")  # type: ignore[call-overload]
