"""One run of a pipeline: each stage gets a `context.Run` and reports to its `Report`. `lock.locked` excludes other writers."""
