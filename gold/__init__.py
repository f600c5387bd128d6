"""Gold: the tables of what the gate let out. The entry is `publish.publish`."""
