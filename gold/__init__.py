"""Gold: what the gate let out."""
