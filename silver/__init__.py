"""Silver: each record once, by a high watermark per stream."""
