"""How much is measured."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """What the command line asks for."""

    jobs: int = 20_000
    runs: int = 3
    processes: tuple[int, ...] = (1, 2)
    concurrency: tuple[int, ...] = (20, 100)
    waiting: int = 100_000
    letters: int = 100_000
    seconds: float = 5.0
