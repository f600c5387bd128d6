"""Object stores that hold tables: how Spark, delta-rs and Arrow reach each of them, all with the same credentials.

What the config does not say comes from the environment, by the names that other tools use (`AWS_REGION`, `AZURE_CLIENT_ID`).
Credentials that neither has are looked for by each reader itself: in the environment, or where the cloud's machine has them.
"""
