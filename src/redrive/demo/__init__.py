"""The product in half a minute: real jobs, a real worker, real failures, and figures read from the store."""

PATIENCE = 27.0
"""Seconds after which the demo ends although jobs are left, and says so; two thirds of them are for the first act."""
