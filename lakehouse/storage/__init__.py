"""Object stores that hold tables: how Spark, delta-rs and Arrow reach each of them, all with the same credentials.

Settings that the config lacks come from the environment (`AWS_REGION`), and credentials also from the cloud's machine.
"""
