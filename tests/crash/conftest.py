"""What every crash test may use."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.crash.scene")

from tests.crash.scene import Scene  # noqa: E402


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A store of one's own; at the end nothing of it may run any more."""
    scene = Scene(tmp_path)
    yield scene
    scene.close()
