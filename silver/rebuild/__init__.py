"""Silver decided again from Bronze, beside the tables that there are, and what differs. The entry is `replay.replay`."""
