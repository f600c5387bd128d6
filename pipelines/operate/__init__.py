"""Executes operators' decisions: `requests.carry_out`, `accept_topic.carry_out`, `gate_decision.decide`, `erasure.forget`."""
