"""A supervisor under test: `supervising.py PROCESSES GRACE PATIENCE FOLDER BEHAVIOUR…`; tells each death as a line."""

import json
import sys
from pathlib import Path

from redrive.supervisor import Death, supervise

WORKER = Path(__file__).with_name("scripted_worker.py")


def tell(death: Death) -> None:
    """One line for the test to read."""
    if "unreportable" in sys.argv:
        raise RuntimeError("the store is away")
    told = {"cause": death.outcome.cause, "kind": type(death.outcome).__name__, "sentence": death.sentence}
    print(json.dumps({**told, "pid": death.pid}), flush=True)


if __name__ == "__main__":
    processes, grace, patience, folder, *behaviours = sys.argv[1:]
    command = [sys.executable, str(WORKER), folder, *behaviours]
    sys.exit(supervise(command, int(processes), grace=float(grace), patience=float(patience), report=tell))
