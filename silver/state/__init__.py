"""What Silver knows between loads: the watermark table, the ledger, and the claim that a load's rows in it are.

`watermarks.read` and `watermarks.advance` are the first and the last step of every load.
"""
