"""Producer, epoch, sequence and payload of a record: the entries are `columns.sequenced` and `payload.decoded`."""
