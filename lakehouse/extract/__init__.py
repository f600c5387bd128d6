"""Reads producer, epoch and sequence of a Kafka record, or why one could not be read. The entry is `columns.extract`."""
