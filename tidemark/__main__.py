"""`python -m tidemark`: the command line without its console script."""

import sys

from tidemark.cli import main

if __name__ == "__main__":
    sys.exit(main())
