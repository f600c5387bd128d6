"""One load of Silver: recover, plan, claim, append, advance. The entry is `steps.load_once`."""
