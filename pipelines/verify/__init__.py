"""Verify the tables against each other. Read-only. The entry is `run.verify`."""
