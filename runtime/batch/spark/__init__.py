"""Batch queries on Spark. Importing this package imports nothing, as the workers of Spark do so too."""
