"""The gate: facts, the Great Expectations suite that checks them, and the results. The entry is `gate.audit`."""
