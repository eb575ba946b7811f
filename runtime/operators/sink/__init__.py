"""The end of a chain: what a sink's table demands of rows, and its connector's writer."""
