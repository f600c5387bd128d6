"""What processes agree on through commits: who writes Bronze, what a cutover rolled back, what is kept out of Gold."""
