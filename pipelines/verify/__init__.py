"""Prove the tables against each other. Reads only. The entry is `run.verify`."""
