"""The words of the documentation, each with its meaning and the page that explains it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    """A word, what it means, and the page below `docs` that explains it, with an anchor where one helps."""

    word: str
    means: str
    page: str


WORDS: dict[str, tuple[Word, ...]] = {
    "Work": (
        Word("task", "a function of yours with a name, registered in an app", "tutorial.md#a-task-and-a-job"),
        Word("job", "one unit of work: a task's name, a payload, options", "tutorial.md#a-task-and-a-job"),
        Word("payload", "what the job was given: a JSON value", "how-to/web-applications.md"),
        Word("queue", "a named line of jobs", "how-to/operate.md#queues"),
        Word("priority", "0 to 9, nine first; low is 2, normal 5, high 8", "how-to/retries.md#for-one-job"),
        Word("idempotency key", "a second job with it is not added while it is held", "how-to/web-applications.md"),
        Word("worker", "a process that runs jobs; it has slots", "how-to/run-workers.md"),
        Word("store", "where all of it is kept, and the only truth", "how-it-works.md#the-truth-store-stores"),
        Word(
            "lease",
            "the right to run a job until a moment; its *fence* is the number that names it",
            "how-it-works.md",
        ),
        Word("attempt", "one run of a job that its retry policy counts; a crash is counted apart", "tutorial.md"),
        Word("epoch", "one life of a job: the first when it is enqueued, another with each redrive", "how-it-works.md"),
        Word("release", "the version of your code that a worker reports", "how-to/rules.md#when-the-fix-is-out"),
    ),
    "Failure": (
        Word("reason", "the class of a failure, which says whether time can heal it", "reference/reasons.md"),
        Word("letter", "a dead letter: a job given up on, with every failure it had", "how-to/dead-letters.md"),
        Word("group", "all letters with one cause, with an owner, notes and a state", "how-to/dead-letters.md"),
        Word(
            "fingerprint",
            "what makes failures one cause: task, type, place in your code and the message without its details",
            "how-to/repair.md#what-is-one-cause",
        ),
        Word("muted", "of a group: left out of `dlq groups` for a while", "how-to/dead-letters.md"),
        Word("closed", "of a group: its cause is fixed; a new letter reopens it", "how-to/dead-letters.md"),
        Word("filter", "a sentence that says which letters are meant", "reference/filters.md"),
    ),
    "Recovery": (
        Word("redrive", "a lasting act that gives a frozen selection of letters a new epoch", "how-to/redrives.md"),
        Word(
            "stage",
            "so many letters of a redrive at once; the next begins when it is judged",
            "how-to/redrives.md#let-it-stop-by-itself",
        ),
        Word("recurs", "of a cause: letters that were brought back fail as before", "how-to/redrives.md"),
        Word("rule", "what workers do with letters without a person", "how-to/rules.md#rules"),
        Word(
            "review",
            "why a letter needs a person before it is brought back",
            "how-to/rules.md#what-a-person-has-to-look-at",
        ),
        Word(
            "returns",
            "how often in a row a letter came back with the same cause",
            "how-to/rules.md#what-a-person-has-to-look-at",
        ),
        Word(
            "operation",
            "one act on many letters that outlives who began it: discard, restore, purge, edit, undo, regroup",
            "how-to/repair.md#interrupted",
        ),
        Word(
            "recipe",
            "an edit that a group remembers, to be made again",
            "how-to/repair.md#remembered-by-the-group",
        ),
        Word("discard", "end a letter and its job; a restore undoes it", "how-to/dead-letters.md#not-worth-doing"),
        Word("purge", "remove a letter for good, but for a *tombstone*", "how-to/dead-letters.md#not-worth-doing"),
        Word("tombstone", "what stays of a purged job, so that its id is not accepted again", "how-to/operate.md"),
    ),
    "Trust": (
        Word("journal", "what happened off the happy path, one entry each", "how-to/operate.md#jobs-and-events"),
        Word("actor", "who did it: a person, a rule, a policy", "how-to/operate.md"),
        Word("ledger", "the sum of what came, what went and what is there", "how-to/operate.md#was-anything-lost"),
        Word(
            "seal",
            "a digest of acts in the journal and of the seal before it; all seals are the *trail*",
            "how-to/operate.md#who-did-what-and-is-it-still-what-they-did",
        ),
        Word(
            "retention",
            "how long what has ended is kept",
            "how-to/operate.md#what-is-kept-and-for-how-long",
        ),
        Word(
            "notice",
            "the time between the announcement that open letters will go and the first that goes",
            "how-to/operate.md#what-is-kept-and-for-how-long",
        ),
    ),
}
"""In the order in which a newcomer meets them."""


def words() -> str:
    """One word for one thing, by subject."""
    parts = [
        f"## {subject}\n\n| word | means | more |\n| --- | --- | --- |\n" + "".join(_row(each) for each in found)
        for subject, found in WORDS.items()
    ]
    return "# Words\n\nOne word for one thing, in commands, columns, code and pages.\n\n" + "\n".join(parts)


def _row(word: Word) -> str:
    shown = word.page.partition("#")[0].rpartition("/")[2].removesuffix(".md").replace("-", " ")
    return f"| **{word.word}** | {word.means} | [{shown}](../{word.page}) |\n"
