"""What people use instead. Each peer has its own process, and every result is counted in the same way."""
