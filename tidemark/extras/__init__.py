"""What only some commands load: `init` and `check` (onboarding), the report, metrics and alerts, the demo."""
