"""The server process: JobManager, TaskManagers and HTTP in one command, with what it keeps and whom it lets in."""
