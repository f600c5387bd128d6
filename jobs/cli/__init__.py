"""The command line `tidemark`. The entry is `main`."""

from jobs.cli.app import main

__all__ = ["main"]
