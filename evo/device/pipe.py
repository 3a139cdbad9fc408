"""Messages over a socket between a worker and its child. Arrays travel outside the pickle, copied once on each side."""

from __future__ import annotations

import pickle
import socket
import struct
import time
from typing import Any

_COUNT = struct.Struct("<I")
_SIZE = struct.Struct("<Q")


class Closed(Exception):
    """The other end is gone."""


def send(pipe: socket.socket, message: object) -> None:
    """Send one message. Raises Closed."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
    parts = [memoryview(body), *(buffer.raw() for buffer in buffers)]
    head = _COUNT.pack(len(parts)) + b"".join(_SIZE.pack(part.nbytes) for part in parts)
    try:
        pipe.sendall(head)
        for part in parts:
            pipe.sendall(part)
    except (BrokenPipeError, ConnectionResetError):
        raise Closed from None


def receive(pipe: socket.socket, deadline: float) -> Any:
    """Wait for one message until the monotonic time `deadline`. Raises TimeoutError or Closed."""
    (count,) = _COUNT.unpack(_read(pipe, _COUNT.size, deadline))
    sizes = [_SIZE.unpack(_read(pipe, _SIZE.size, deadline))[0] for _ in range(count)]
    body, *buffers = [_read(pipe, size, deadline) for size in sizes]
    return pickle.loads(body, buffers=buffers)


def _read(pipe: socket.socket, size: int, deadline: float) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view.nbytes:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        pipe.settimeout(None if left == float("inf") else left)
        try:
            got = pipe.recv_into(view)
        except ConnectionResetError:
            raise Closed from None
        if not got:
            raise Closed
        view = view[got:]
    return data
