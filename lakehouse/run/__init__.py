"""One run of a pipeline: `context.Run` is handed to every stage.

What a run reports goes through its `Report`; `lock.locked` keeps a second run out.
"""
