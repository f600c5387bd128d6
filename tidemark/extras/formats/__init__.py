"""Avro, Protobuf and the schema registry. `lakehouse.settings.formats` imports them if a config or a claim needs them."""
