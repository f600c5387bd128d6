"""Reconciles Silver's tables with each other and Bronze: `ledger_checks.chain`, `ledger_checks.redecide_load`. Read-only."""
