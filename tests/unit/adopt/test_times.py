"""Points in time as other systems write them."""

from typing import Any

import pytest

from redrive.adopt.times import read_time
from redrive.clock import SECOND

AT = 1_763_782_525 * SECOND


@pytest.mark.parametrize(
    "written",
    [
        "2025-11-22 03:35:25+00",
        "2025-11-22T03:35:25Z",
        "2025-11-22T03:35:25",
        "2025-11-22 04:35:25+01:00",
        "2025-11-22T03:35:25.000000000Z",
        "2025-11-22 03:35:25 UTC",
        "2025-11-22 03:35:25 +0000 UTC",
        "2025/11/22 03:35:25",
        "22.11.2025 03:35:25",
        "Sat, 22 Nov 2025 03:35:25 GMT",
        "22/Nov/2025:03:35:25 +0000",
        1_763_782_525,
        1_763_782_525.0,
        "1763782525",
        "1763782525.0",
        1_763_782_525_000,
        1_763_782_525_000_000,
        1_763_782_525_000_000_000,
        {"$date": "2025-11-22T03:35:25Z"},
        {"$date": {"$numberLong": "1763782525000"}},
        {"secs_since_epoch": 1_763_782_525, "nanos_since_epoch": 0},
    ],
)
def test_a_moment_is_read_however_it_is_written(written: Any) -> None:
    assert read_time(written) == AT


@pytest.mark.parametrize(
    "written", ["soon", "32.13.2025", -1, 10**30, float("nan"), True, [], {}, "99", {"$date": 1}, 10]
)
def test_what_is_no_moment_is_refused(written: Any) -> None:
    with pytest.raises(ValueError, match="is no time"):
        read_time(written)
