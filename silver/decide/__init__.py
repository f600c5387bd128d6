"""Decides the class of each record of a load; `silver.suspects` then classifies the suspects.

The entry is `kernel.Decision.decide`. `decision` converts segments to rejects and ledger totals.
"""
