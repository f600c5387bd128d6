"""The Kafka brokers: the source's options, topic metadata, offsets of consumer groups, and errors."""
