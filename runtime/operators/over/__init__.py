"""OVER: functions over the neighbours of each row."""
