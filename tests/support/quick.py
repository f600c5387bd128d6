"""Settings of Spark for queries over a few rows."""

from __future__ import annotations

QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
"""What such a query waits for most is that it is compiled, and planned again. It pays neither in a test nor in a process that
is about to die."""
