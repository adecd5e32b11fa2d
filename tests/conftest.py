"""What every test may use."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Redrive runs on asyncio."""
    return "asyncio"
