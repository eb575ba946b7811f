"""Windows of instants are cut by the clock of the session: whole days, also where one has 23 hours or 25."""

from __future__ import annotations

from pathlib import Path

import pytest
from oracle import Tables
from sql_oracles import check_generated, draw_of_the_day, generated

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
    window: str, zone: str, tmp_path: Path
) -> None:
    queries = (
        f"SELECT window_start, window_end, window_time, line, COUNT(*), MAX(id) FROM TABLE({window})"
        " GROUP BY window_start, window_end, window_time, line",
        "SELECT * FROM (SELECT window_end, id, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY id DESC)"
        f" AS n FROM TABLE({window})) AS t WHERE n <= 2",
        "SELECT id, window_start, window_end, window_time, FLOOR(`at` TO DAY), HOUR(`at`), CAST(`at` AS STRING)"
        f" FROM TABLE({window})",
    )
    for number, query in enumerate(queries):
        case = generated(f"{window} {zone}", query, NIGHTS, f"set.table.local-time-zone={zone}")
        assert check_generated(case, tmp_path, draw_of_the_day(case, number, len(queries))).rows.num_rows
