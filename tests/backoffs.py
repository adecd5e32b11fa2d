"""Backoffs of every kind, as hypothesis draws them."""

from datetime import timedelta

from hypothesis import strategies as st

from redrive.backoff import JITTERS, LONGEST, Backoff, Delays, Exponential, Fixed, Linear
from redrive.retry import delays, exponential, fixed, immediate, linear

lengths = st.one_of(st.integers(1, 2_000), st.integers(1, LONGEST)).map(lambda n: timedelta(microseconds=n))
"""Durations from one microsecond to the longest delay there is."""

bounds = st.tuples(lengths, lengths).map(sorted)

exponentials: st.SearchStrategy[Exponential] = st.builds(
    lambda pair, multiplier: exponential(pair[0], multiplier, pair[1]), bounds, st.floats(1, 1e6)
)
linears: st.SearchStrategy[Linear] = st.builds(lambda pair, step: linear(pair[0], step, pair[1]), bounds, lengths)
fixeds: st.SearchStrategy[Fixed] = st.builds(fixed, lengths)
lists: st.SearchStrategy[Delays] = st.lists(lengths, min_size=1, max_size=8).map(lambda several: delays(*several))

backoffs: st.SearchStrategy[Backoff] = st.one_of(exponentials, linears, fixeds, lists, st.just(immediate()))
waiting: st.SearchStrategy[Backoff] = st.one_of(exponentials, linears, fixeds, lists)
"""All but `immediate()`."""

attempts = st.one_of(st.integers(1, 20), st.integers(1, 10**9))
jitters = st.sampled_from(JITTERS)
