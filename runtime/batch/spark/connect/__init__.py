"""Batch plans on the server of Spark Connect: no Java here, and nothing that executors must reach."""
