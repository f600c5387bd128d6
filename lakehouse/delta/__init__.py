"""Delta tables.

`tables` creates, reads and writes them through Spark; `small_tables` reads the small ones, without Spark if it can.
Nothing else speaks Delta's dialect.
"""
