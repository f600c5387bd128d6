"""Reads producer, epoch and sequence of a Kafka record, each as a Column, or the reason why it could not be read.

Bronze extracts while it ingests; Silver extracts what Bronze did not, or read by other sources. The entry is `columns.extract`.
"""
