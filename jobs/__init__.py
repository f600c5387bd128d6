"""The jobs and the command line: from flags to settings, a session, a pipeline, an exit code. Nothing imports this package."""
