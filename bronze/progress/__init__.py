"""How far Bronze has read: the checkpoint, the table itself, and the topics. The entry is `checkpoint.read_position`."""
