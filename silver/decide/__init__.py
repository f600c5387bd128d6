"""Which class each record of a load ends in.

The entry is `decision.collect`. It chooses between three ways that decide alike: islands, monotonic streams, and windows.
"""
