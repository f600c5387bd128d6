"""Silver: each record exactly once, by a high watermark per stream. The entry is `load.steps.load_once`."""
