"""What parent and child say to each other is read whole, or not at all."""

import asyncio
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.runners.frames import (
    FRAME_LIMIT,
    HEAD,
    BadFrame,
    Kind,
    packed,
    packed_seconds,
    read_frame,
    receive_frame,
    seconds_in,
)

pytestmark = pytest.mark.anyio

frames = st.lists(st.tuples(st.sampled_from(Kind), st.binary(max_size=300)), max_size=5)


@given(frames)
def test_what_is_sent_is_what_is_received(told: list[tuple[Kind, bytes]]) -> None:
    """By the child, which reads a socket; then the end."""
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(b"".join(packed(kind, body) for kind, body in told))
        assert [receive_frame(theirs) for _ in told] == told
        assert receive_frame(theirs) is None


@given(frames)
def test_what_is_sent_is_what_is_read(told: list[tuple[Kind, bytes]]) -> None:
    """By the parent, which reads a stream."""

    async def read() -> list[tuple[Kind, bytes]]:
        reader = asyncio.StreamReader()
        reader.feed_data(b"".join(packed(kind, body) for kind, body in told))
        reader.feed_eof()
        return [await read_frame(reader) for _ in told]

    assert asyncio.run(read()) == told


@pytest.mark.parametrize("cut", [1, HEAD.size, HEAD.size + 3])
def test_a_frame_that_is_cut_off_is_an_end(cut: int) -> None:
    """A parent that dies in the middle of a sentence has not said it."""
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(packed(Kind.JOB, b"payload")[:cut])
        assert receive_frame(theirs) is None


def test_a_frame_larger_than_the_socket_takes_is_put_together() -> None:
    """The other side reads while we write."""
    ours, theirs = socket.socketpair()
    body = bytes(range(256)) * 8192
    with ours, theirs:
        sender = threading.Thread(target=ours.sendall, args=(packed(Kind.REPLY, body),))
        sender.start()
        assert receive_frame(theirs) == (Kind.REPLY, body)
        sender.join()


@pytest.mark.parametrize("head", [HEAD.pack(max(Kind) + 1, 0), HEAD.pack(Kind.REPLY, FRAME_LIMIT + 1), b"\xff" * 5])
def test_nonsense_is_refused_before_memory_is_taken_for_it(head: bytes) -> None:
    """A kind that does not exist, a length beyond the limit."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(head)
        with pytest.raises(BadFrame, match="makes no sense"):
            receive_frame(theirs)


def test_what_is_too_large_is_not_sent() -> None:
    """It would be refused by the other side."""

    class Huge(bytes):
        def __len__(self) -> int:
            return FRAME_LIMIT + 1

    with pytest.raises(BadFrame, match="over the limit"):
        packed(Kind.JOB, Huge())


def test_a_duration_arrives_as_it_was() -> None:
    """Fractions of a second included."""
    assert seconds_in(packed_seconds(0.125)) == 0.125


@pytest.mark.parametrize(
    "body", [b"", b"1234567", packed_seconds(-1.0), packed_seconds(float("nan")), packed_seconds(float("inf"))]
)
def test_a_duration_that_is_none_is_refused(body: bytes) -> None:
    """A child that was broken by its job may say anything."""
    with pytest.raises(BadFrame, match="makes no sense"):
        seconds_in(body)
