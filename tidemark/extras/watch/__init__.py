"""Metrics and alerts after a run. The entry is `after_run.watching`."""
