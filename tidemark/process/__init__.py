"""Shared by every command and job: settings, a session, results on stdout, an exit code by `exit_codes.invoke`."""
