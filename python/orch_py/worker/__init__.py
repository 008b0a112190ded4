"""The server, its jobs, and what a job reads and writes."""
