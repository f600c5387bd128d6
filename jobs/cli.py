"""The entry point `jobs.cli:main` of earlier versions; `tidemark.cli:main` replaces it."""

import sys

from tidemark.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
