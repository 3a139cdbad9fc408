"""The compiler's own process: reads jobs on stdin, answers on stdout. Run as a script; imports nothing of evo.

A message is an 8-byte length and JSON, then (answers only) the cubin. The process ends with its parent, however that
ends: a thread watches for a closed pipe and for a new parent, and takes the whole process group down.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import resource
import select
import signal
import struct
import subprocess
import sys
import threading
from typing import Any  # the JSON of one message

_ADDRESS_SPACE_BYTES = 4 << 30  # a normal compile maps under 1 GiB; a bomb is stopped before it hurts the host
_CUBIN_LIMIT_BYTES = 64 << 20  # initialised globals end up in the image
_WATCH_PERIOD_S = 1.0
_COMPILATION, _OUT_OF_MEMORY, _INVALID_OPTION = 6, 1, 5  # nvrtcResult


def _watch(source: int, jobs: queue.Queue[dict[str, Any]], parent: int) -> None:
    """Read jobs until the parent is gone, then end this process at once, in the middle of a compile too."""
    buffer = b""
    while os.getppid() == parent:
        readable, _, _ = select.select([source], [], [], _WATCH_PERIOD_S)
        if not readable:
            continue
        chunk = os.read(source, 1 << 16)
        if not chunk:
            break
        buffer += chunk
        while len(buffer) >= 8 and len(buffer) >= 8 + (size := struct.unpack("<Q", buffer[:8])[0]):
            jobs.put(json.loads(buffer[8 : 8 + size]))
            buffer = buffer[8 + size :]
    with contextlib.suppress(OSError):
        if os.getpgrp() == os.getpid():  # started as a group of its own: takes a running disassembler along
            os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _send(sink: int, header: dict[str, Any], blob: bytes = b"") -> None:
    text = json.dumps({**header, "blob_bytes": len(blob)}).encode()
    data = memoryview(struct.pack("<Q", len(text)) + text + blob)
    while data:
        data = data[os.write(sink, data) :]


def _compile(nvrtc: Any, job: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    names = [name.encode() for name in job["headers"]]
    texts = [text.encode() for text in job["headers"].values()]
    result, program = nvrtc.nvrtcCreateProgram(job["text"].encode(), job["name"].encode(), len(names), texts, names)
    if int(result):
        return {"result": int(result), "log": f"nvrtcCreateProgram: {result}"}, b""
    try:
        options = [option.encode() for option in job["options"]]
        (result,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        log = _bytes_of(nvrtc, "ProgramLog", program).decode("utf-8", "replace").replace("\0", "")  # one per tool
        if int(result):
            return {"result": int(result), "log": log}, b""
        ptx = _bytes_of(nvrtc, "PTX", program).decode("utf-8", "replace").rstrip("\0")
        cubin = _bytes_of(nvrtc, "CUBIN", program)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    if len(cubin) > _CUBIN_LIMIT_BYTES:
        return {"result": _COMPILATION, "log": f"nvrtc error: machine code of {len(cubin)} bytes"}, b""
    try:
        sass = _instruction_mix(job["nvdisasm"], cubin) if cubin and "nvdisasm" in job else {}
    except _Unreadable as error:
        return {"result": _COMPILATION, "log": f"nvdisasm error: {error}"}, b""
    return {"result": 0, "log": log, "ptx": ptx, "sass": sass}, cubin


def _bytes_of(nvrtc: Any, what: str, program: Any) -> bytes:
    _, size = getattr(nvrtc, f"nvrtcGet{what}Size")(program)
    data: bytes = b" " * size
    if size:
        getattr(nvrtc, f"nvrtcGet{what}")(program, data)
    return data


class _Unreadable(Exception):
    """The disassembler refuses this machine code."""


def _instruction_mix(nvdisasm: str, cubin: bytes) -> dict[str, dict[str, int]]:
    """{function: {base mnemonic: count}}. The image goes through an anonymous file: nothing is left after a kill."""
    image = os.memfd_create("cubin")
    try:
        data = memoryview(cubin)
        while data:  # a limit on file sizes cuts a write short before it fails one, and that is not the text's doing
            data = data[os.write(image, data) :]
        command = [nvdisasm, "-json", "-ndf", f"/proc/self/fd/{image}"]
        done = subprocess.run(command, pass_fds=[image], capture_output=True, stdin=subprocess.DEVNULL, check=False)
    finally:
        os.close(image)
    if done.returncode:
        # A tool that works but cannot read this image (a 4 GiB global, say) is the text's doing; a broken tool is ours.
        subprocess.run([nvdisasm, "--version"], check=True, capture_output=True, stdin=subprocess.DEVNULL)
        raise _Unreadable(done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}")
    mix: dict[str, dict[str, int]] = {}
    for function in json.loads(done.stdout)[1]:
        counts = mix.setdefault(function["function-name"], {})
        for instruction in function["sass-instructions"]:
            opcode = instruction["opcode"].split(".")[0]
            if opcode != "NOP":  # padding up to the section's alignment
                counts[opcode] = counts.get(opcode, 0) + 1
    return mix


def main() -> None:
    source, sink = os.dup(0), os.dup(1)
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # whatever the compiler prints must not reach the protocol or the terminal
        os.dup2(quiet, stream)
    os.chdir("/")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE_BYTES, _ADDRESS_SPACE_BYTES))
    jobs: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_watch, args=(source, jobs, int(sys.argv[1])), daemon=True).start()
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()  # loads the library, so that its absence is known before the first job
    except (ImportError, RuntimeError, OSError, AttributeError) as error:
        _send(sink, {"fault": f"NVRTC cannot be loaded: {type(error).__name__}: {error}"})
        return
    _send(sink, {"ready": True})
    while True:
        job = jobs.get()
        try:
            answer, cubin = _compile(nvrtc, job)
        except MemoryError:
            answer, cubin = {"result": _OUT_OF_MEMORY, "log": "out of memory"}, b""
        except (OSError, RuntimeError, ValueError, LookupError, subprocess.SubprocessError) as error:
            answer, cubin = {"fault": f"{type(error).__name__}: {error}"}, b""
        _send(sink, answer, cubin)


if __name__ == "__main__":
    main()
