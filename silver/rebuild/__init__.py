"""Decides Silver again from Bronze into shadow tables, and lists the differences. The entry is `replay.replay`."""
