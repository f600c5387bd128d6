"""Delta tables: `tables` uses Spark, `small_tables` does without if it can. Nothing else speaks Delta's dialect."""
