"""This machine: its Java, JVM jars, memory, disk, and files that only its user may read. The entry is `doctor.diagnose`."""
