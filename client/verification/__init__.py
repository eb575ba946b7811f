"""VERIFY: whether a query has the same rows as a stream and in batch."""
