"""Classifies suspects by content as duplicate, late or collision. The entry is `resolve.Suspects.classify`."""
