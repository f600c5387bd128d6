"""Commands that only read: DuckDB over the tables, no JVM. `database.connect` opens them."""
