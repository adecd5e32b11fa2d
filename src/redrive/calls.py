"""How a job travels to a child process and its settlement back: MessagePack, because payloads are bytes."""

import msgspec

from redrive.job import Job
from redrive.store import AnySettlement

_jobs = msgspec.msgpack.Decoder(Job)
_settlements: msgspec.msgpack.Decoder[AnySettlement] = msgspec.msgpack.Decoder(AnySettlement)
_encoder = msgspec.msgpack.Encoder()


class Hello(msgspec.Struct, frozen=True):
    """What a child is told first: which app to import, for which worker."""

    app: str
    worker: str


_hellos = msgspec.msgpack.Decoder(Hello)


def hello(app: str, worker: str) -> bytes:
    return _encoder.encode(Hello(app, worker))


def decode_hello(frame: bytes) -> Hello:
    return _hellos.decode(frame)


def encode(job: Job) -> bytes:
    """A job as a frame."""
    return _encoder.encode(job)


def decode(frame: bytes) -> Job:
    """The job in a frame."""
    return _jobs.decode(frame)


def encode_settlement(settlement: AnySettlement) -> bytes:
    """A settlement as a frame, without the job that the other side has anyway."""
    stub = Job(id=settlement.job.id, task=settlement.job.task, payload=b"")
    return _encoder.encode(msgspec.structs.replace(settlement, job=stub))


def decode_settlement(frame: bytes, job: Job) -> AnySettlement:
    """The settlement in a frame, about this job."""
    settlement: AnySettlement = _settlements.decode(frame)
    return msgspec.structs.replace(settlement, job=job)
