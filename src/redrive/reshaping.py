"""Other payloads for the letters of a redrive, computed from its plan before they are released."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from redrive.errors import BadArguments, UsageError
from redrive.operations import workshop_of
from redrive.redact import said
from redrive.repair import Workshop, remade
from redrive.store import Change, Due, Given, Plan

if TYPE_CHECKING:
    from redrive.app import Redrive as App

Reshape = Callable[[Plan, Due], Given]


class Reshaper:
    """Does to a payload what a plan says, as an edit does, and checks it where the task is known."""

    def __init__(self, app: "App | None" = None) -> None:
        self._workshop = Workshop() if app is None else workshop_of(app)

    def __call__(self, plan: Plan, due: Due) -> Given:
        """What a letter is released with, or one sentence about why it cannot be."""
        change = Change(settings=plan.settings, patch=plan.patch)
        try:
            payload = remade(due.payload, change, self._workshop.limit)
        except UsageError as error:
            why = said(error).replace(" of the patch cannot be done to this payload", "")
            return Given(id=due.id, version=due.version, why=f"the patch cannot be done to it: {why}")
        if payload is None:
            return Given(id=due.id, version=due.version)
        why = self._misfit(due.task, payload)
        return Given(id=due.id, version=due.version, payload=None if why else payload, why=why)

    def _misfit(self, task: str, payload: bytes) -> str:
        try:
            self._workshop.fits(task, payload)
        except BadArguments as error:
            return f"the patch makes a payload that its task does not take: {said(error)}"
        return ""
