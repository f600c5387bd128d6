"""Operators' requests: release, discard, reset, accept, erase, retire. Each is planned as a load.

The entry is `planner.plan_request`.
"""
