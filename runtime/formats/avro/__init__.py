"""Avro's binary encoding: schemas, columns of rows and rows of columns, and files."""
