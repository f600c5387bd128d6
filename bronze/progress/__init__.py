"""How far Bronze has read: the checkpoint, the table itself, and which topics these offsets belong to.

The entry is `position.read`.
"""
