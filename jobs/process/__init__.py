"""What every process of ours does: settings, a session, one run, results on stdout, an exit code.

The entry is `exit_codes.invoke`.
"""
