"""TaskManagers in the executors of a Spark cluster."""
