"""The filter language: text -> tree -> a condition of an engine, and a predicate in Python that means the same."""
