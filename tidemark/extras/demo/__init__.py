"""`tidemark demo`, and the local broker of `tidemark broker`. The entries are `run.run_demo`, `broker.up` and `broker.down`."""
