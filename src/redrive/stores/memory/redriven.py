"""What the jobs of redrives in memory come to, told to the redrive at once."""

import msgspec

from redrive.job import Job
from redrive.ramp import Ending, judged
from redrive.stores.memory.rows import Memory


def tell_redrive(memory: Memory, job: Job, ending: Ending, why: str = "", plain: str = "") -> None:
    """Keep the item and the tallies of the redrive that waits for this job, if one does."""
    driven = memory.rows.redrives.get(job.redrive or "")
    held = driven.items.get(job.id) if driven is not None else None
    if driven is None or held is None or held.item.state != "released" or held.epoch != job.epoch:
        return
    same = held.item.cause in (why, plain) or why == memory.rows.letters[job.id].group
    outcome, verdict = judged(ending, same=same, judge=driven.row.plan.judge)
    verdict = verdict if held.verdict is None else None
    held.verdict = held.verdict or verdict
    if outcome or verdict:
        said = "" if ending == "succeeded" else why
        held.item = msgspec.structs.replace(
            held.item, state=outcome or held.item.state, why=said, at=memory.clock.now()
        )
    tally = driven.causes[held.item.cause]
    more = {name: getattr(tally, name) + 1 for name in (outcome, verdict) if name}
    driven.causes[held.item.cause] = msgspec.structs.replace(tally, **more)
    if verdict:
        number = held.item.stage - 1
        stage = driven.stages[number]
        driven.stages[number] = msgspec.structs.replace(stage, **{verdict: getattr(stage, verdict) + 1})
