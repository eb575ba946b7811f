"""What holds a job back: findings with their numbers, read from what the JobManager knows of it."""
