"""The Kafka brokers: the source (`source.reader_options`), topics (`metadata.describe_topics`), errors (`errors.failure`)."""
