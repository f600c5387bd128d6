"""Gold: the tables of published records, after the gate. The entry is `publish.publish`."""
