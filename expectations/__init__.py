"""The gate: facts, the Great Expectations suite over them, and their results. The entry is `gate.audit`."""
