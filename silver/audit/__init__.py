"""Reconciles Silver's tables with each other and with Bronze. Read-only."""
