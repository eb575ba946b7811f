"""Spark for tests: `engine` runs batch plans in this process, `sql` evaluates lowered SQL in the same Spark, `standalone` is a
cluster of processes, `hosts` are hosts for such a cluster on this machine, and `processes` finds what is left of one."""
