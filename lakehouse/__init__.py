"""The kernel: knows Spark and Delta Lake, but no topics, layers or expectations."""

__version__ = "0.1.0"
