"""The command line `tidemark`. The entry is `main`."""

from jobs.cli.commands import main

__all__ = ["main"]
