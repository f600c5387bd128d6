"""What processes agree on by commits: who writes Bronze, what a restore or rebuild undid, what is kept out of Gold."""
