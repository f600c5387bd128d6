"""What `002_ee2887fe6fbf22bc.txt` prints of its runs, and the numbers that a consumer must have read to print it."""

from __future__ import annotations

# Run 2 of the test that kills the partition's leader, idempotence off: as printed, and the runs of numbers between the jumps.
LEADER_KILLED = [
    "JUMP FORWARDS 2438 (101446 -> 103884)",
    "JUMP BACKWARDS 1637 (104702 -> 103065)",
    "JUMP BACKWARDS 1617 (103883 -> 102266)",
    "JUMP BACKWARDS 1617 (103064 -> 101447)",
    "DUPLICATE BLOCK - JUMP BACKWARDS 1609 (102265 -> 100656)",
    "JUMP FORWARDS 3257 (101446 -> 104703)",
]
LEADER_KILLED_RUNS = [
    (1, 101446),
    (103884, 104702),
    (103065, 103883),
    (102266, 103064),
    (101447, 102265),
    (100656, 101446),
    (104703, 110000),
]
"""Cut off at 110,000 of the run's 1,000,000 numbers: no jump follows."""

# Runs of the test that kills TCP connections: as printed, the number before, and the number read.
CONNECTION_KILLED = [
    ("DUPLICATE BLOCK - JUMP BACKWARDS 8999 (228805 -> 219806)", 228805, 219806),
    ("DUPLICATE BLOCK - JUMP BACKWARDS 9999 (151567 -> 141568)", 151567, 141568),
    ("DUPLICATE BLOCK - JUMP BACKWARDS 2872 (197106 -> 194234)", 197106, 194234),
    ("DUPLICATE BLOCK - JUMP BACKWARDS 9279 (87028 -> 77749)", 87028, 77749),
]
