"""What a table of connector `duckdb` lies in."""

from __future__ import annotations

import enum


class PlaceKind(enum.Enum):
    DUCKDB = "duckdb"
    SQLITE = "sqlite"
    POSTGRES = "postgres"
    MYSQL = "mysql"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"

    @property
    def is_files(self) -> bool:
        return self in (PlaceKind.CSV, PlaceKind.JSON, PlaceKind.PARQUET)

    @property
    def is_server(self) -> bool:
        """Whether it is a database at an address, not in a file."""
        return self in (PlaceKind.POSTGRES, PlaceKind.MYSQL)
