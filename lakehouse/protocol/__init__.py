"""What runs of several processes agree on by commits: who writes Bronze, what a restore or rebuild has undone, what Gold
keeps out.

None
"""
