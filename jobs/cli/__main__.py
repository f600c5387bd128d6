"""`python -m jobs.cli`: the command line without its console script."""

import sys

from jobs.cli import main

if __name__ == "__main__":
    sys.exit(main())
