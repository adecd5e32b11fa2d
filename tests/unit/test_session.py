"""Running the asynchronous part of a command."""

import asyncio
import gc

import pytest

from redrive.cli import Terminated
from redrive.cli.session import Session


def test_a_second_signal_on_the_way_out_prints_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """`timeout` sends two."""

    async def work() -> None:
        def first() -> None:
            raise Terminated(143)

        asyncio.get_running_loop().call_soon(first)
        try:
            await asyncio.Event().wait()
        finally:
            raise Terminated(143)

    with pytest.raises(Terminated):
        Session([]).run(work())
    gc.collect()
    assert caplog.messages == []
