"""Great Expectations. The entry is `engine.evaluate`; nothing else imports it."""
