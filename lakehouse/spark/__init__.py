"""The Spark session (`session.open_session`), and what Spark lacks: frames from few rows, interval joins, bitmaps, progress."""
