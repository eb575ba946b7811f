"""Parquet files that batch engines read by themselves, where they get the rows that our reader gives."""
