"""Silver: each record exactly once, by a high watermark per stream."""
