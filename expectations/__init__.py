"""The gate: facts, the Great Expectations suite over them, and their results."""
