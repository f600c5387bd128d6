SELECT key, count(*) AS records FROM gold_records GROUP BY key
