"""Producer, epoch, sequence and payload of a Kafka record, or the reason why one could not be read.

The entries are `columns.sequenced` and `payload.decoded`.
"""
