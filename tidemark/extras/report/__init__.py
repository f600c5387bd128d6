"""`tidemark report`: one HTML page. The entry is `page.make_report` over `facts.facts`."""
