"""Execute operators' decisions: requests to Silver, a topic's break, a gate run, the end of an erasure."""
