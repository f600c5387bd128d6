"""Reads producer, epoch and sequence of a Kafka record, or the reason for a failure. The entry is `columns.extract`."""
