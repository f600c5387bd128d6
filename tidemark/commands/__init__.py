"""The command line `tidemark`. The entry is `main`."""

from tidemark.commands.commands import main

__all__ = ["main"]
