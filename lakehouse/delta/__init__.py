"""Delta tables: `tables` uses Spark, `small_tables` and `log_files` read local folders. Only this package uses Delta's SQL."""
