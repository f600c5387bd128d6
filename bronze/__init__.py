"""Bronze: Kafka as it was read."""
