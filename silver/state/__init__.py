"""Silver's state between loads: `watermarks.read`, and the ledger, whose rows claim a load (`ledger.try_claim`)."""
