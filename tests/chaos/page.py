"""stub"""
from pathlib import Path
PAGE=Path("docs/chaos.md"); CSV=Path("docs/chaos/runs.csv")
def page(rows, faults): return ""
