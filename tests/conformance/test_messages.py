"""What a protocol takes or gives survives the way through a pipe: each type of the signatures has a sample."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import socket
import types
from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from conformance_devices import deed_request, inputs, right
from scripted_site import evaluation_of
from simulator_session import simulator
from tiny import FAST, new_repository

from evo.device import (
    BenchCase,
    DeviceName,
    ExtremesRequest,
    RehearsalRequest,
    RunRequest,
    SampleRequest,
)
from evo.device.output_extremes import Extreme
from evo.device.protocol import Device, ModellingDevice, TimingDevice
from evo.device.remote_calls import LockState, Raised, RemoteCall, Returned, packed, unpacked
from evo.device.sim_device import SimDevice
from evo.device.timing_types import (
    BenchOptions,
    BenchRequest,
    BenchResult,
    LibraryCase,
    LibraryPairs,
    LibraryTimes,
    timing_of,
)
from evo.errors import (
    CandidateFailed,
    ChildDied,
    ChildGarbled,
    Crashed,
    EvoError,
    SyntaxInvalid,
    TimedOut,
    WorkerUnreachable,
)
from evo.evaluate.pipeline import Job, start
from evo.results import CaptureNoise, CaseBench, Control, Fault, FaultKind, Rate
from evo.search.cluster import Worker
from evo.search.cluster.protocol import WorkerDescription
from evo.search.cluster.task_archive import pack
from evo.spec.connection import Connection
from evo.spec.task import load_task

PROTOCOLS = (Device, ModellingDevice, TimingDevice, Worker)


def _named(hint: Any) -> Iterator[type]:
    """The classes of evo in a type: list[X | None] has X."""
    if inspect.isclass(hint) and hint.__module__.startswith("evo."):
        yield hint
    elif isinstance(hint, types.UnionType) or get_origin(hint) is not None:
        for part in get_args(hint):
            yield from _named(part)


def _of_protocols() -> set[type]:
    methods = {getattr(protocol, name) for protocol in PROTOCOLS for name in vars(protocol) if name[0] != "_"}
    return {named for method in methods for hint in get_type_hints(method).values() for named in _named(hint)}


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[type, Any]:
    """A value of each type, as full as a real one."""
    device = SimDevice(DeviceName("sim", "l4"))
    case = BenchCase(program=right(), inputs=inputs())
    sample = SampleRequest(case=case, draw=3, blocks=2, budget=10**6)
    extremes = ExtremesRequest(
        case=case, draw=3, groups=np.arange(256) % 4, find=Extreme(output="y", at=1, lowest=True)
    )
    rows = device.estimate([case])
    assert not isinstance(rows, Fault)
    timing = timing_of([1.0, 2.0, 3.0])
    task = load_task(new_repository(tmp_path_factory.mktemp("messages") / "mine"), "scale")
    job = Job(task=task, text=FAST, rival=FAST, seed=5)
    with simulator() as bench:
        started = start(job, bench, bench.checker)
    values = (
        case,
        right(),
        right().binary,
        RunRequest(program=right(), inputs=inputs(), blocks=3, draw=1, budget=7),
        RehearsalRequest(
            program=right(),
            launch=0,
            parameters={2: np.arange(3)},
            grid=np.ones((3, 3), np.int64),
            block=np.ones((3, 3), np.int64),
            seconds=1.0,
        ),
        device.run(deed_request("stray_1")),
        sample,
        device.run_sample(sample),
        extremes,
        device.output_extremes(dataclasses.replace(extremes, find=None)),
        rows[0],
        Fault(
            kind=FaultKind.RACE, kernel="k", message="m", source_line=3, block=(0, 1, 2), thread=(1, 0, 0), address=9
        ),
        BenchOptions(samples=3),
        BenchRequest(child=(case,), parent=(case,), score={"size": 1.0}, others={"size": (inputs(),)}),
        BenchResult(child=(CaseBench(name="size", warm=timing),), samples={"size": np.ones(3, np.float32)}),
        LibraryCase(folder="kernels/x", axes={"K": 2}, inputs=inputs()),
        LibraryTimes(warm=timing, cold=timing, outputs=(np.ones(3),)),
        LibraryPairs(ratios=(0.1, 0.2), variant_us=1.0, library_us=2.0),
        Rate(value=1.0, unit="Hz", condition="c"),
        Control(sd=0.01, pairs=40, smallest_margin=0.004, between_captures=CaptureNoise(sd=0.002, captures=4)),
        WorkerDescription(host="h", pid=3, harness="1", chip="sim-l4", about={"a": "b"}),
        pack(task),
        job,
        started,
        evaluation_of(job, "sim:l4"),
    )
    return {type(value): value for value in values}


def test_there_is_a_sample_of_every_type_in_the_protocols(samples: dict[type, Any]) -> None:
    assert {kind.__name__ for kind in _of_protocols()} <= {kind.__name__ for kind in samples}


KINDS = sorted(_of_protocols(), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__ for kind in KINDS])
def test_a_value_comes_through_a_pipe_as_it_was_sent(kind: type, samples: dict[type, Any]) -> None:
    sent = samples[kind]
    got = _through_a_pipe(sent)
    assert type(got) is kind
    _same(got, sent)


ERRORS: tuple[Exception, ...] = (
    TimedOut(1.5),
    Crashed("illegal memory access"),
    ChildDied(-9, "out of memory"),
    ChildGarbled("a header"),
    WorkerUnreachable("gone"),
    SyntaxInvalid("a.cu", 3, "no launch", hint="add one"),
    *(
        kind("what happened", hint="what to do")
        for kind in (EvoError, *EvoError.__subclasses__())
        if kind.__init__ is EvoError.__init__
    ),
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_comes_through_a_pipe_with_its_words(error: Exception) -> None:
    got = _through_a_pipe(error)
    assert type(got) is type(error)
    assert str(got) == str(error)
    assert isinstance(got, EvoError | CandidateFailed)
    assert getattr(got, "hint", None) == getattr(error, "hint", None)
    assert vars(got) == vars(error)


@pytest.mark.parametrize(
    "message",
    [
        RemoteCall("run", (1, "two"), {"three": 3}),
        Returned({"y": 1}, spent=True),
        Raised(TimedOut(2.0)),
        LockState(waiting=True),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_is_the_same_after_it_was_sent(message: Any) -> None:
    got = unpacked(_through_a_pipe(packed(message)))
    assert type(got) is type(message)
    assert repr(got) == repr(message)


@pytest.mark.parametrize("said", [None, (), ("call",), ("nothing", 1), {"ok": 1}, ("returned", 1, 2, 3), ([], 1)])
def test_what_is_no_message_is_told(said: object) -> None:
    with pytest.raises(ChildGarbled):
        unpacked(said)


def test_many_large_parts_are_the_same_after_they_were_sent() -> None:
    sent = [np.full(300, number, np.int16) for number in range(1500)]  # more than one call of the system takes
    sent[700] = np.zeros(0, np.int16)
    got = _through_a_pipe(sent)
    assert all((one == other).all() and one.size == other.size for one, other in zip(got, sent, strict=True))


def _through_a_pipe(value: Any) -> Any:
    near, far = socket.socketpair()
    with near, far:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        Connection(near).send(value, limit_s=10.0)
        return Connection(far).receive()


def _same(got: Any, sent: Any) -> None:
    if isinstance(sent, np.ndarray):
        np.testing.assert_array_equal(got, sent)
        assert got.dtype == sent.dtype
        assert got.flags.writeable or not sent.flags.writeable
    elif dataclasses.is_dataclass(sent):
        for field in (field for field in dataclasses.fields(sent) if field.compare):  # the others are made anew
            _same(getattr(got, field.name), getattr(sent, field.name))
    elif isinstance(sent, dict):
        assert list(got) == list(sent)
        for key in sent:
            _same(got[key], sent[key])
    elif isinstance(sent, list | tuple):
        assert len(got) == len(sent)
        for ours, theirs in zip(got, sent, strict=True):
            _same(ours, theirs)
    elif type(sent).__eq__ is object.__eq__:
        assert pickle.dumps(got) == pickle.dumps(sent)
    else:
        assert got == sent
