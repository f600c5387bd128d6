"""Silver's tables reconciled with each other and with Bronze. Reads only."""
