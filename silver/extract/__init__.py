"""Reads producer, epoch, sequence and payload of a Kafka record, each as a Column, or the reason why it could not be read.

The entries are `columns.extract` and `payload.decoded`.
"""
