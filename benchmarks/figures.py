"""What was measured, beside what was hoped for, as text and as JSON."""

import json
import os
import platform
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import apsw
import msgspec

import redrive


@dataclass(frozen=True, slots=True)
class Figure:
    """One quantity: the median of its runs, and the goal it has if it has one."""

    case: str
    name: str
    runs: tuple[float, ...]
    unit: str
    goal: float | None = None
    at_most: bool = False
    """Whether less is better: the goal is a ceiling."""

    @property
    def value(self) -> float:
        return median(self.runs)

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; None without one."""
        if self.goal is None:
            return None
        return self.value <= self.goal if self.at_most else self.value >= self.goal

    def line(self) -> str:
        """For people."""
        spread = f"  ({_short(min(self.runs))} to {_short(max(self.runs))})" if len(self.runs) > 1 else ""
        return f"  {self.name:<44}{_short(self.value):>9} {self.unit}{spread}{self._judged()}"

    def _judged(self) -> str:
        if self.goal is None:
            return ""
        sign = "at most" if self.at_most else "at least"
        return f"  goal {sign} {_short(self.goal)}: {'met' if self.met else 'MISSED'}"


def ratio(case: str, name: str, ours: Figure, reference: Figure, goal: float | None = None) -> Figure:
    """Ours against the reference, run by run; the two were measured in turns, so a slow moment hits both."""
    runs = tuple(one / other for one, other in zip(ours.runs, reference.runs, strict=True))
    return Figure(case, name, runs, "x", goal)


@dataclass(slots=True)
class Results:
    """Everything that one call of the benchmarks has found."""

    figures: list[Figure] = field(default_factory=list)

    def tell(self, heading: str, figures: Iterable[Figure]) -> None:
        """Keep these and show them."""
        print(heading)
        for figure in figures:
            self.figures.append(figure)
            print(figure.line())
        print(flush=True)

    def write(self, path: Path, command: list[str]) -> None:
        """All of it for programs."""
        rows = [asdict(figure) | {"value": figure.value, "met": figure.met} for figure in self.figures]
        path.write_text(json.dumps({"command": command, **circumstances(), "figures": rows}, indent=2) + "\n")


def circumstances() -> dict[str, Any]:
    """On what it was measured."""
    return {
        "at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()} {platform.release()}",
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "redrive": redrive.__version__,
        "sqlite": apsw.sqlite_lib_version(),
        "apsw": apsw.apsw_version(),
        "msgspec": msgspec.__version__,
    }


def _short(number: float) -> str:
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.2f}" if abs(number) < 10 else f"{number:.1f}"
