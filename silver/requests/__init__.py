"""Operators' requests, each planned as a load. The entry is `planner.plan_request`."""
