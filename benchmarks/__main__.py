"""`python -m benchmarks [CASE …]`: what Redrive costs, beside the smallest honest program on the same engine."""

import argparse
import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from benchmarks.drain import drain, dying
from benchmarks.enqueue import enqueue
from benchmarks.figures import Figure, Results, circumstances
from benchmarks.letters import letters, redrive
from benchmarks.plan import Plan
from benchmarks.resting import idle, latency, memory

Case = Callable[[Plan], AsyncIterator[tuple[str, list[Figure]]]]

CASES: dict[str, Case] = {
    "drain": drain,
    "dying": dying,
    "enqueue": enqueue,
    "latency": latency,
    "idle": idle,
    "memory": memory,
    "letters": letters,
    "redrive": redrive,
}


def main(arguments: Sequence[str]) -> None:
    """Measure the cases that were asked for; a missed goal is told, and is no failure of the command."""
    asked = parser().parse_args(arguments)
    waiting = asked.waiting, asked.letters
    plan = Plan(asked.jobs, asked.runs, asked.processes, asked.concurrency, *waiting, asked.seconds)
    logging.getLogger("redrive").setLevel(logging.ERROR)
    print(", ".join(f"{name} {value}" for name, value in circumstances().items()), end="\n\n", flush=True)
    results = Results()
    asyncio.run(measure([CASES[name] for name in asked.cases or CASES], plan, results))
    if asked.json:
        results.write(asked.json, ["python", "-m", "benchmarks", *arguments])


async def measure(cases: Sequence[Case], plan: Plan, results: Results) -> None:
    """One case after the other."""
    for case in cases:
        async for heading, figures in case(plan):
            results.tell(heading, figures)


def parser() -> argparse.ArgumentParser:
    """What can be asked for."""
    plan = Plan()
    found = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    found.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="CASE", help=f"{', '.join(CASES)}; all")
    found.add_argument("--jobs", type=int, default=plan.jobs, help="jobs of a drain (%(default)s)")
    found.add_argument("--runs", type=int, default=plan.runs, help="runs of each, in turns (%(default)s)")
    found.add_argument("--processes", type=numbers, default=plan.processes, metavar="1,2", help="worker processes")
    found.add_argument("--concurrency", type=numbers, default=plan.concurrency, metavar="20,100", help="slots of each")
    found.add_argument("--waiting", type=int, default=plan.waiting, help="jobs that wait, for memory (%(default)s)")
    found.add_argument("--letters", type=int, default=plan.letters, help="dead letters (%(default)s)")
    found.add_argument("--seconds", type=float, default=plan.seconds, help="of latency and idle (%(default)s)")
    found.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured there too")
    return found


def numbers(text: str) -> tuple[int, ...]:
    """`1,2` as numbers."""
    return tuple(int(piece) for piece in text.split(","))


if __name__ == "__main__":
    main(sys.argv[1:])
