"""The jobs: flags to settings, a session, a pipeline and an exit code; and the command line. Nothing imports this package."""
