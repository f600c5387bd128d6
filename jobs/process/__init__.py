"""What every command and job shares: settings, a session, results on stdout, an exit code.

The entry is `exit_codes.invoke`.
"""
