"""The rules live in the package; their assertions are told as those of any test."""

import pytest

pytest.register_assert_rewrite("redrive.testing.contract", "redrive.testing.factories", "redrive.testing.machine")
