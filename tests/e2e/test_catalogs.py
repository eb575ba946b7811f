"""Commands that share a catalog in files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from command_harness import sqlstream


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return sqlstream("run", "--quiet", "--format", "csv", *arguments)


@pytest.mark.timeout(300)
def test_a_table_made_by_one_command_is_read_and_written_by_another(tmp_path: Path) -> None:
    opened = f"CREATE CATALOG kept WITH ('type' = 'file', 'path' = '{tmp_path}/kept'); USE CATALOG kept;"
    made = run(
        "-c",
        f"{opened} CREATE DATABASE shop COMMENT 'x'; CREATE TABLE shop.orders (id INT, price DECIMAL(6, 2))"
        f" WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/orders', 'format' = 'csv');"
        " CREATE VIEW shop.dear AS SELECT id FROM shop.orders WHERE price > 10",
    )
    assert (made.returncode, made.stderr) == (0, "")
    used = run(
        "-c",
        f"{opened} INSERT INTO shop.orders VALUES (1, 9.50), (2, 10.50); USE shop; SELECT * FROM dear;"
        " CREATE TABLE orders (id INT) WITH ('connector' = 'print')",
    )
    assert (used.returncode, used.stdout) == (2, "id\n2\n")
    assert used.stderr.startswith('error[SS2013]: table "orders" exists already\n')


def test_a_catalog_that_cannot_be_opened_is_an_error_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1")
    failed = run("-c", f"CREATE CATALOG kept WITH ('type' = 'file', 'path' = '{tmp_path}')")
    assert failed.returncode == 2
    assert failed.stderr.startswith(
        f'error[SS5022]: "{tmp_path}" is not empty and holds no catalog\n  1 | CREATE'
    )
