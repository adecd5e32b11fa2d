"""A handler that forks: its fork runs nothing of the worker's, and ends where the handler ends."""

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "programs" / "forking_handlers.py"
EXITS = {"returned": 0, "raised": 1, "left": 3}


def test_a_fork_ends_where_its_handler_ends() -> None:
    """It has the exit code of a program that ended so; nobody beside it runs twice."""
    ended = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=30, check=True)
    on_loop = [f"worker: {line}" for end, code in EXITS.items() for line in (f"{end}: exit code {code}", "neighbour")]
    in_thread = [f"worker: {line}" for end, code in EXITS.items() for line in (f"{end}: exit code {code}", "Succeeded")]
    assert ended.stdout.splitlines() == on_loop + in_thread
    assert ended.stderr.count("ValueError: in the fork") == 2
