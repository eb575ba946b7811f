"""Formats of change events: lines of JSON that say how a table of another database changes.

Debezium, Canal, Maxwell and Oracle GoldenGate each have an envelope of their own around the rows; what they share is here: an
event becomes the rows of a changelog, and a changelog becomes events.
"""
