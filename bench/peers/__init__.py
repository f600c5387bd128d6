"""What people use instead: each peer runs in a process of its own, and every result is counted the same way."""
