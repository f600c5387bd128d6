"""One run of a pipeline: `context.Run` is handed to every stage.

What a run tells others goes through its `Report`; `lock.locked` keeps a second run out.
"""
