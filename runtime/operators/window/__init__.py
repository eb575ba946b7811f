"""Operators over windows of time: assignment, aggregation, Top-N and join."""
