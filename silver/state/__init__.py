"""Silver's state between loads: the watermark table and the ledger, in which a load's rows are its claim.

`watermarks.read` and `watermarks.advance` are the first and the last step of every load.
"""
