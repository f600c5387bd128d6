"""Bronze: Kafka records as they were read. The entry is `ingest.ingest`."""
