"""Joins of two inputs: regular, interval and lookup joins. Joins of windows stand with the windows."""
