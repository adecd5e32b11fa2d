"""Redrive keeps background jobs from being lost when they fail."""

__version__ = "0.1.0"
