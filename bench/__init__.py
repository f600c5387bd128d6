"""The benchmark: what Tidemark and other ways cost. Not part of the wheel."""
