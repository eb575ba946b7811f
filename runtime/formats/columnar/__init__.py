"""Formats that store columns: whole files, read by Arrow."""
