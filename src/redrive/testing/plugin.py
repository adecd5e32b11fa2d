"""The pytest plugin: a fixture for tests of users' own tasks, without a server, a file or a sleep.

def test_a_signup_sends_a_welcome(client, redrive_test):
    jobs = redrive_test(app)
    client.post("/signup", {"email": "a@b.c"})
    assert jobs.arguments(send_email) == [{"to": "a@b.c"}]
    jobs.drain()
    assert jobs.states(send_email) == ["done"]
"""

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redrive.testing.sandbox import Sandboxes


@pytest.fixture
def redrive_test() -> "Iterator[Sandboxes]":
    """Call it with your app: for this test its jobs live in memory and its clock stands still until you move it."""
    from redrive.testing.sandbox import sandbox  # lazily: pytest loads this plugin in projects that do not use it

    with ExitStack() as stack:
        yield lambda app: stack.enter_context(sandbox(app))
