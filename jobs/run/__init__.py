"""`tidemark run`: again and again, and what a run came to. The entry is `loop.run_every`."""
