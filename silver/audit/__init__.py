"""Reconciles Silver's tables with each other and Bronze: `ledger_checks.chain`, `redecide.redecide_load`. Read-only."""
