"""The tables proven against each other. Reads only. The entry is `run.verify`."""
