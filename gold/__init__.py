"""Gold: the published records. The entry is `publish.publish`; its gate run is that of `expectations.gate.last_gate_run`."""
