"""The Spark session, and what Spark lacks: frames from few rows, interval joins, bitmaps, progress.

`session.open_session` is the only place that opens one.
"""
