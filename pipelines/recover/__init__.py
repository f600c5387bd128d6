"""Restore all tables to an earlier load (`restore.restore`), or rebuild Silver from Bronze (`rebuild.rebuild`)."""
