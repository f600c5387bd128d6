"""Bronze records that come in runs: what `silver.decide.islands` finds again."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from lakehouse.contracts.bronze import BRONZE
from lakehouse.spark import frames

Run = tuple[int, int, int, int]  # partition, epoch, first sequence, records: -1 for a sequence that cannot be read


PRODUCERS = ("a", "a ")  # the producer of the records of each epoch: two names that differ in a trailing blank


def bronze_of(spark: SparkSession, runs: Sequence[Run], *, odd: frozenset[tuple[int, int]] = frozenset()) -> DataFrame:
    """Bronze's records of the runs, one run after another, offsets without gaps.

    The values at `odd`, partition and offset, are not those that every other record of their sequence has.
    """
    offsets = {0: 0, 1: 0}
    rows = []
    for partition, epoch, first, length in runs:
        for nth in range(1 if first < 0 else length):
            sequence = "x" if first < 0 else str(first + nth)
            place = (partition, offsets[partition])
            named = {"seq": sequence, "epoch": str(epoch), "producer": PRODUCERS[epoch]}
            headers = [{"key": name, "value": text.encode()} for name, text in named.items()]
            record = {"topic": "t", "partition": partition, "offset": offsets[partition], "headers": headers}
            value = f"odd {place}" if place in odd else f"v{sequence}"
            rows.append({**record, "value": value.encode(), "run_id": "r"})
            offsets[partition] += 1
    return frames.of_contract(spark, rows, BRONZE)
