"""Silver decided again from Bronze, next to the live tables, and the differences. The entry is `replay.replay`."""
