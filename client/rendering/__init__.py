"""Text for people and programs: values, rows, tables, and what a terminal shows."""
