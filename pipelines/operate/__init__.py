"""What a person decides, carried out: requests to Silver, a topic's break, a gate run, the end of an erasure."""
