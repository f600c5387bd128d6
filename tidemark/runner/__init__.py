"""`tidemark run`: one run or a loop of them, and how results print. The entries are `once.run_once` and `loop.run_every`."""
