"""Before a first run: looking at a topic, writing a config for it, checking what a run needs.

The entries are `init.init` and `check.check`. `candidates` is pure: it judges records and reads nothing.
"""
