"""Decides the class of each record of a load, except that suspects are left to `silver.suspects`.

The entry is `kernel.Decision`. `decision` says what becomes of the segments.
"""
