"""Take all tables back to an earlier load, or rebuild Silver from Bronze.

The entries are `restore.restore` and `rebuild.rebuild`.
"""
