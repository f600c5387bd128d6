"""`tidemark run`: once or again and again, and what a run came to. The entries are `once.run_once` and `loop.run_every`."""
