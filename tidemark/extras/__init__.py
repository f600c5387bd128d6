"""What only some commands load: `init` and `check` (onboarding), the report, metrics, alerts, the demo, formats of values."""
