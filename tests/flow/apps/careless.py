"""A script that forgot `if __name__ == "__main__":`; a child that imports it must not enqueue a second time."""

from redrive import Redrive

app = Redrive("memory://")


@app.task(name="work", isolation="process")
def work() -> None:
    """Never reached."""


if __name__ != "tests.flow.apps.careless" or app.importing is not None:
    work.enqueue()
