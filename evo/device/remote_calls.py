"""Calls of methods of an object that a child process has opened: the messages, and the driver's side of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from evo.device import DeviceName
from evo.device.kept_arrays import Receiver, Sender, Shipment
from evo.errors import ChildGarbled
from evo.spec.child_entries import DEVICE
from evo.spec.child_process import ChildProcess
from evo.spec.processor_wait import await_answer

_ARRIVAL_S = 10.0  # for a message that has begun to arrive
LIBRARY_OPENER = "evo.device.child:open_library_device"  # the same, in a process that has imported torch


class RemoteCall(NamedTuple):
    """A method of the opened object, and what it is given."""

    method: str
    arguments: tuple[object, ...] = ()
    named: dict[str, object] | None = None


class OpenRequest(NamedTuple):
    """Open the object: until then the child has only imported what that takes."""


class Returned(NamedTuple):
    """What the method returned; None once the object is open. spent: this child is to be replaced."""

    value: object
    spent: bool = False


class Raised(NamedTuple):
    """What the method raised: TimedOut, Crashed or an EvoError."""

    error: Exception
    spent: bool = False


class LockState(NamedTuple):
    """Sent during a call: the object waits for the GPU, which another process has, or has it now."""

    waiting: bool


Answer = Returned | Raised
Message = OpenRequest | RemoteCall | Returned | Raised | LockState
_KINDS: dict[str, type[Message]] = {
    "begin": OpenRequest,
    "call": RemoteCall,
    "returned": Returned,
    "raised": Raised,
    "lock": LockState,
}
_TAGS = {kind: tag for tag, kind in _KINDS.items()}


def packed(message: Message) -> tuple[object, ...]:
    """A message as it is sent: a plain tuple, since to pickle a class by its name takes ten times as long."""
    return (_TAGS[type(message)], *message)


def unpacked(said: object) -> Message:
    """The message that was sent. Raises ChildGarbled if it is none."""
    if isinstance(said, tuple) and said and isinstance(said[0], str):
        kind = _KINDS.get(said[0])
        if kind is not None and len(said) == 1 + len(kind._fields):
            return kind._make(said[1:])
    raise ChildGarbled(f"received a {type(said).__name__} in place of a message")


def received(said: object, arrays: Receiver) -> Message:
    """A message of the driver, unpacked if it came with arrays to keep. Raises ChildGarbled if it is none."""
    if isinstance(said, tuple) and len(said) == 1 + len(Shipment._fields) and said[0] == "shipment":
        said = arrays.unpack(Shipment._make(said[1:]))
    return unpacked(said)


class OpenedObject:
    """An object that `opener` (`module:function`, called with a DeviceName) opens in a child process of its own.

    on_wait is called when a call has to wait for the GPU.
    """

    def __init__(self, device: DeviceName, opener: str, on_wait: Callable[[], object] = lambda: None) -> None:
        self._on_wait = on_wait
        self._arrays = Sender()
        self._is_begun = False
        modules = ["torch"] if opener == LIBRARY_OPENER else []
        self.child = ChildProcess(DEVICE, device.kind, device.which, opener, modules=modules)

    def begin(self, limit_s: float) -> None:
        """Begin to open the object, and do not wait for it. Raises TimeoutError or ChildDied."""
        if not self._is_begun:
            self._is_begun = True
            self.child.send(packed(OpenRequest()), limit_s)

    def opened(self, limit_s: float) -> Answer:
        """What comes of opening the object, which begins now if it has not. Raises as `call`."""
        deadline = time.monotonic() + limit_s
        self.begin(limit_s)
        return self._answer(deadline, limit_s)

    def call(self, call: RemoteCall, limit_s: float) -> Answer:
        """The answer to a call. The time that it waits for the GPU is not on its clock; the child bounds that itself.

        Nor is the time for which a busy machine gives it no processor (`await_answer`).
        Raises TimeoutError, ChildDied or ChildGarbled: then the child is of no more use. On a machine that is too
        busy, WorkerLost: then nothing is known of the call.
        """
        deadline = time.monotonic() + limit_s
        self.child.send(("shipment", *self._arrays.pack(packed(call))), limit_s)
        return self._answer(deadline, limit_s)

    def _answer(self, deadline: float, limit_s: float) -> Answer:
        while True:
            await_answer(self.child, deadline, limit_s)
            said = unpacked(self.child.receive(max(deadline, time.monotonic() + _ARRIVAL_S)))
            if isinstance(said, Returned | Raised):
                return said
            if isinstance(said, RemoteCall | OpenRequest):
                raise ChildGarbled(f"process {self.child.pid} sent a call, which is no answer")
            if said.waiting:
                deadline = float("inf")
                self._on_wait()
            else:
                deadline = time.monotonic() + limit_s
