"""The invariants that single records can break, as queries for the records that do. Data: nothing is run here.

Great Expectations' `UnexpectedRowsExpectation` runs them (`expectations.gx.engine`), and only when the rows are asked for: the
gate counts the same in one pass over narrow columns (`expectations.evidence.facts`).
"""

from __future__ import annotations

from expectations.evidence.facts import REQUIRED

_PLACE = "topic, partition, producer, load_seq, offset, epoch, sequence"
_STREAM = "topic, partition, producer"

# `floor` is the ledger's watermark before the load; `previous` and `earlier` are what Silver itself holds before a row.
_FALLING = f"""
    WITH marked AS (
      SELECT *, struct(epoch, sequence) AS ordinal, max(if(load_seq IS NULL, NULL, struct(epoch, sequence))) OVER (
        PARTITION BY {_STREAM} ORDER BY load_seq RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
      ) AS earlier
      FROM {{batch}}
    ), in_order AS (
      SELECT *, lag(ordinal) OVER (PARTITION BY {_STREAM}, load_seq ORDER BY offset) AS previous
      FROM marked WHERE arrival = 'in_order'
    ), compared AS (
      SELECT *, greatest(previous, earlier, floor) AS not_above FROM in_order
    )
    SELECT {_PLACE}, not_above.epoch AS not_above_epoch, not_above.sequence AS not_above_sequence
    FROM compared WHERE ordinal <= not_above ORDER BY {_PLACE}
"""  # noqa: S608 -- columns of ours; as in every query below

_TWICE = f"""
    SELECT {_PLACE}, arrival FROM (
      SELECT *, count(*) OVER (PARTITION BY {_STREAM}, epoch, sequence) AS copies FROM {{batch}}
    ) WHERE copies > 1 ORDER BY {_STREAM}, epoch, sequence, offset
"""  # noqa: S608 -- as above

_NULL = f"""
    SELECT {_PLACE}, arrival FROM {{batch}} WHERE {" OR ".join(f"{name} IS NULL" for name in REQUIRED)} ORDER BY {_PLACE}
"""  # noqa: S608 -- as above

RECORDS = {
    "sequence_increases": _FALLING,
    "stream_key_is_unique": _TWICE,
    "required_columns_are_not_null": _NULL,
}
"""The query of each such invariant, by its name. It reads the range's rows of `silver_records`, each with its `floor`: the
ledger's watermark before the row's load, a struct of epoch and sequence."""
