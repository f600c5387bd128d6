"""`tidemark demo`. The entry is `run.run_demo`."""
