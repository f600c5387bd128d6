"""Decides the class of each record of a load, except that suspects are left to `silver.suspects`.

The entry is `decision.decide`. It decides by islands, monotonic streams or windows, with the same outcome.
"""
