"""Great Expectations, which only `engine` imports. The entry is `engine.evaluate`."""
