"""`tidemark report`: one HTML page. The entry is `export.make_report` over `facts.facts`."""
