"""All tables taken back to an earlier load, or Silver made again from Bronze.

The entries are `restore.restore` and `rebuild.rebuild`.
"""
