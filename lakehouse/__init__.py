"""The kernel: it knows Spark and Delta Lake, and knows no topic, no layer and no expectation."""

__version__ = "0.1.0"
