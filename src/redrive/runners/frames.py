"""What parent and child say to each other: frames of a kind and a length, over a pair of sockets."""

import asyncio
import math
import socket
import struct
from enum import IntEnum

HEAD = struct.Struct("!BI")
CAP = struct.Struct("!Q")
_SECONDS = struct.Struct("!d")
FRAME_LIMIT = 256 * 1024 * 1024


class Kind(IntEnum):
    """What a frame is."""

    HELLO = 0  # parent: here is what to start
    READY = 1  # child: started
    START_FAILED = 2  # child: could not start; a sentence, NUL, the traceback
    JOB = 3  # parent: the memory cap (0 = none), then the job
    TAKEN = 4  # child: from here on what happens is the job's doing
    REPLY = 5  # child: the answer
    GOODBYE = 6  # parent: no more jobs, end in peace
    EXTEND = 7  # child: the deadline of this job is so many seconds from now
    LAST = 8  # child: the answer, and this process should be given no other job


class BadFrame(Exception):
    """The other side speaks another language."""


def packed(kind: Kind, body: bytes = b"") -> bytes:
    """A frame as it is sent."""
    if len(body) > FRAME_LIMIT:
        raise BadFrame(f"a frame of {len(body):,} bytes is over the limit of {FRAME_LIMIT:,}")
    return HEAD.pack(kind, len(body)) + body


def packed_seconds(seconds: float) -> bytes:
    """A duration as the body of a frame."""
    return _SECONDS.pack(seconds)


def seconds_in(body: bytes) -> float:
    """The duration in the body of a frame."""
    if len(body) != _SECONDS.size:
        raise BadFrame(f"a duration of {len(body):,} bytes makes no sense")
    (seconds,) = _SECONDS.unpack(body)
    if not 0 <= seconds < math.inf:
        raise BadFrame(f"a duration of {seconds} seconds makes no sense")
    return float(seconds)


def _opened(head: bytes) -> tuple[Kind, int]:
    kind, length = HEAD.unpack(head)
    if kind > max(Kind) or length > FRAME_LIMIT:
        raise BadFrame(f"a frame of kind {kind} with {length:,} bytes makes no sense")
    return Kind(kind), length


async def read_frame(reader: asyncio.StreamReader) -> tuple[Kind, bytes]:
    """The next frame; raises IncompleteReadError at the end."""
    kind, length = _opened(await reader.readexactly(HEAD.size))
    return kind, await reader.readexactly(length)


def receive_frame(channel: socket.socket) -> tuple[Kind, bytes] | None:
    """The next frame, or None when the other side has closed."""
    head = _receive(channel, HEAD.size)
    if head is None:
        return None
    kind, length = _opened(head)
    body = _receive(channel, length)
    return None if body is None else (kind, body)


def _receive(channel: socket.socket, length: int) -> bytes | None:
    body = bytearray(length)
    view, filled = memoryview(body), 0
    while filled < length:
        try:
            count = channel.recv_into(view[filled:])
        except ConnectionResetError:
            return None
        if not count:
            return None
        filled += count
    return bytes(body)
