"""The benchmark: what a load costs beside a plain copy of the same records. Never in the wheel."""
