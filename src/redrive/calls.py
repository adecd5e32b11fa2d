"""How a job travels to a child process and its settlement back: MessagePack, because payloads are bytes."""

import sys

import msgspec

from redrive.config import Config
from redrive.job import Job
from redrive.store import AnySettlement


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """What a child is told first: which app to import and from where, for which worker, under which settings."""

    app: str
    worker: str
    path: tuple[str, ...] = ()
    config: Config | None = None


class Call(msgspec.Struct, frozen=True):
    """A job to run, and what time it is for the parent."""

    job: Job
    now: int


_encoder = msgspec.msgpack.Encoder()
_hellos = msgspec.msgpack.Decoder(Hello)
_calls = msgspec.msgpack.Decoder(Call)
_settlements: msgspec.msgpack.Decoder[AnySettlement] = msgspec.msgpack.Decoder(AnySettlement)


def hello(app: str, worker: str, config: Config | None = None) -> bytes:
    """The first frame, with this process's own import path."""
    told = Hello(app=app, worker=worker, path=tuple(sys.path), config=config)
    try:
        return _encoder.encode(told)
    except TypeError:  # settings made in code, of functions: importing the app makes them again
        return _encoder.encode(msgspec.structs.replace(told, config=None))


def decode_hello(frame: bytes) -> Hello:
    """What the first frame says."""
    return _hellos.decode(frame)


def encode(job: Job, now: int) -> bytes:
    """A job as a frame."""
    return _encoder.encode(Call(job, now))


def decode(frame: bytes) -> Call:
    """The job in a frame."""
    return _calls.decode(frame)


def encode_settlement(settlement: AnySettlement) -> bytes:
    """A settlement as a frame, without the job that the other side has anyway."""
    stub = Job(id=settlement.job.id, task=settlement.job.task, payload=b"")
    return _encoder.encode(msgspec.structs.replace(settlement, job=stub))


def decode_settlement(frame: bytes, job: Job) -> AnySettlement:
    """The settlement in a frame, about this job."""
    settlement: AnySettlement = _settlements.decode(frame)
    return msgspec.structs.replace(settlement, job=job)
