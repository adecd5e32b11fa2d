"""Small background loops, each done by exactly one process at a time; each writes only its `poll`."""
