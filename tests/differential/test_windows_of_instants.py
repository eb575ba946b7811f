"""Windows of instants are cut by the clock of the session: whole days, also where one has 23 hours or 25."""

from __future__ import annotations

import pytest
from oracle import Differential, Tables

NIGHTS: Tables = {
    "calls": (
        "id INT, line INT, `at` TIMESTAMP_LTZ(3), WATERMARK FOR `at` AS `at` - INTERVAL '0.001' SECOND",
        # Clocks go forward in the first night, back in the second.
        [
            (id, id % 2, f"2024-{day} {time}")
            for id, (day, time) in enumerate(
                (day, time)
                for day in ("03-30", "03-31", "10-26", "10-27")
                for time in (
                    "00:00:00",
                    "00:30:00.001",
                    "01:00:00",
                    "01:30:00",
                    "12:00:00",
                    "22:30:00",
                    "23:59:59.999",
                )
            )
        ],
    )
}


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/St_Johns", "GMT+05:45"])
@pytest.mark.parametrize(
    "window",
    [
        "TUMBLE(TABLE calls, DESCRIPTOR(`at`), INTERVAL '1' DAY)",
        "TUMBLE(TABLE calls, DESCRIPTOR(`at`), INTERVAL '1' HOUR, INTERVAL '15' MINUTE)",
        "HOP(TABLE calls, DESCRIPTOR(`at`), INTERVAL '6' HOUR, INTERVAL '1' DAY)",
        "CUMULATE(TABLE calls, DESCRIPTOR(`at`), INTERVAL '8' HOUR, INTERVAL '1' DAY)",
    ],
)
def test_windows_of_instants_are_cut_by_the_clock_of_the_session(
    window: str, zone: str, differential: Differential
) -> None:
    aggregate = (
        f"SET 'table.local-time-zone' = '{zone}'; SELECT window_start, window_end, window_time, line, COUNT(*), MAX(id)"
        f" FROM TABLE({window}) GROUP BY window_start, window_end, window_time, line"
    )
    differential(aggregate, NIGHTS, batch_rows=2)
    ranked = (
        f"SET 'table.local-time-zone' = '{zone}'; SELECT * FROM (SELECT window_end, id, ROW_NUMBER() OVER (PARTITION BY"
        f" window_start, window_end ORDER BY id DESC) AS n FROM TABLE({window})) AS t WHERE n <= 2"
    )
    differential(ranked, NIGHTS, batch_rows=2)
    query = (
        f"SET 'table.local-time-zone' = '{zone}'; SELECT id, window_start, window_end, window_time, FLOOR(`at` TO DAY),"
        f" HOUR(`at`), CAST(`at` AS STRING) FROM TABLE({window})"
    )
    assert differential(query, NIGHTS)
