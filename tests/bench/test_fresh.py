"""The table of `bench.fresh`, from the commits of Gold."""

import pyarrow as pa

from bench.fresh import Publish, by_minute


def test_a_minute_has_the_ages_of_its_publishes_and_the_lag_at_its_end() -> None:
    found = [
        Publish(50.0, pa.chunked_array([[45.0, 46.0]])),
        Publish(70.0, pa.chunked_array([[58.0, 61.0], [62.0]])),
        Publish(130.0, pa.chunked_array([[119.0, 125.0]])),  # after the end: counts for the lag only
    ]

    rows = list(by_minute(found, [0.0, 60.0, 120.0], [1.5, 0.5]))

    assert rows == [
        ("1", "2", "1", "4.5", "5.0", "5.0", "1", "1.50"),
        ("2", "3", "1", "9.0", "11.7", "11.9", "1", "0.50"),
        ("2 on", "3", "1", "9.0", "11.7", "11.9", "1", "0.50"),
    ]
