"""What every command and job shares: settings, a session, results on stdout, an exit code by `exit_codes.invoke`."""
