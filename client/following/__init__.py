"""What users are told of a job: its progress, its end, and the rows that it lost."""
