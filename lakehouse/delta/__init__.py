"""Delta tables: `tables` uses Spark, `small_tables` and `log_files` read local folders. Nothing else speaks Delta's dialect."""
