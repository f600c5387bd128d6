"""How far Bronze has read: the checkpoint, the table itself, and the topics that the offsets belong to.

The entry is `position.read`.
"""
