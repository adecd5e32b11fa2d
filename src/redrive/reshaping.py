"""Other payloads for the letters of a redrive, computed from its plan before they are released."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from redrive.edits import patched, with_values
from redrive.errors import BadArguments, UsageError
from redrive.job import PAYLOAD_LIMIT, decode, encode
from redrive.redact import said
from redrive.store import Due, Given, Plan

if TYPE_CHECKING:
    from redrive.app import Redrive as App

Reshape = Callable[[Plan, Due], Given]


class Reshaper:
    """Does to a payload what a plan says, and checks it where the task is known."""

    def __init__(self, app: "App | None" = None) -> None:
        self._app = app

    def __call__(self, plan: Plan, due: Due) -> Given:
        """What a letter is released with, or one sentence about why it cannot be."""
        try:
            before = decode(due.payload)
            after = with_values(before, plan.settings) if plan.patch is None else patched(before, plan.patch)
            text = encode(after, limit=PAYLOAD_LIMIT if self._app is None else self._app.config.payload_limit)
        except UsageError as error:
            why = said(error).replace(" of the patch cannot be done to this payload", "")
            return Given(id=due.id, version=due.version, why=f"the patch cannot be done to it: {why}")
        if text == encode(before):
            return Given(id=due.id, version=due.version)
        why = self._misfit(due.task, text)
        return Given(id=due.id, version=due.version, payload=None if why else text, why=why)

    def _misfit(self, task: str, payload: bytes) -> str:
        known = None if self._app is None else self._app.registry.get(task)
        if known is None:
            return ""
        try:
            known.bind(payload)
        except BadArguments as error:
            return f"the patch makes a payload that its task does not take: {said(error)}"
        return ""
