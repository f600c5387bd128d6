"""This machine: its Java, the JVM jars, its memory and disk, and files that only its user may read.

`doctor.diagnose` checks whether it has what Tidemark needs.
"""
