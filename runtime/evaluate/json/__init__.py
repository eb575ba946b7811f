"""Functions of JSON."""
