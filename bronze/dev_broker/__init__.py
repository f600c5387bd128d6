"""A single-node Kafka broker on this machine, for the demo and the tests. The entries are `broker.up` and `broker.down`."""
