"""Silver's state between loads: the watermark table and the ledger, in which a load's rows are its claim."""
