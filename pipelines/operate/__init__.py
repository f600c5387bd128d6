"""Execute what an operator decides: requests to Silver, a topic's break, a gate run, the end of an erasure."""
