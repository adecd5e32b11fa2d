"""Measures Redrive against the smallest honest program on the same engine."""
