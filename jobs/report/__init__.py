"""`tidemark report`: one HTML page. The entry is `page.page` over `facts.facts`."""
