"""The compiler's own process: answers jobs from `process_pool`. Loaded as a file, so that it imports little.

A job is a CUDA text to compile, or a PTX text to assemble for another architecture. It and its answer are JSON objects;
the answer holds the machine code under `cubin`.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
from typing import Any  # the JSON of one message

_ADDRESS_SPACE_BYTES = 4 << 30  # a normal compile maps under 1 GiB; a bomb is stopped before it hurts the host
_CUBIN_LIMIT_BYTES = 64 << 20  # initialised globals end up in the image
_COMPILATION, _OUT_OF_MEMORY = 6, 1  # nvrtcResult


def _compile(nvrtc: Any, job: dict[str, Any]) -> dict[str, Any]:
    names = [name.encode() for name in job["headers"]]
    texts = [text.encode() for text in job["headers"].values()]
    result, program = nvrtc.nvrtcCreateProgram(job["text"].encode(), job["name"].encode(), len(names), texts, names)
    if int(result):
        return {"result": int(result), "log": f"nvrtcCreateProgram: {result}"}
    try:
        options = [option.encode() for option in job["options"]]
        (result,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        log = _bytes_of(nvrtc, "ProgramLog", program).decode("utf-8", "replace").replace("\0", "")  # one per tool
        if int(result):
            return {"result": int(result), "log": log}
        ptx = _bytes_of(nvrtc, "PTX", program).decode("utf-8", "replace").rstrip("\0")
        cubin = _bytes_of(nvrtc, "CUBIN", program)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    if len(cubin) > _CUBIN_LIMIT_BYTES:
        return {"result": _COMPILATION, "log": f"nvrtc error: machine code of {len(cubin)} bytes"}
    try:
        sass = _instruction_mix(job["nvdisasm"], cubin) if cubin and "nvdisasm" in job else {}
    except _Unreadable as error:
        return {"result": _COMPILATION, "log": f"nvdisasm error: {error}"}
    return {"result": 0, "log": log, "ptx": ptx, "sass": sass, "cubin": cubin}


def link(ptx: str, arch: str) -> dict[str, Any]:
    """The machine code of a PTX text for `sm_NN`, under `cubin`; a result other than 0 and a log if there is none."""
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()  # loads the library
    except (ImportError, RuntimeError, OSError, AttributeError) as error:
        return {"result": _COMPILATION, "log": f"{type(error).__name__}: {error}"}
    handle = 0
    try:
        handle = nvjitlink.create(1, [f"-arch={arch}"])
        data = ptx.encode()
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, data, len(data), "variant.ptx")
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
    except nvjitlink.nvJitLinkError as error:  # of the text, or an architecture that it does not know
        return {"result": _COMPILATION, "log": str(error)}
    finally:
        if handle:
            nvjitlink.destroy(handle)
    return {"result": 0, "log": "", "cubin": bytes(cubin)}


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


def serve(connection: Any) -> None:
    """Answer jobs until the driver is gone."""
    os.chdir("/")
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE_BYTES, _ADDRESS_SPACE_BYTES))
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()  # loads the library, so that its absence is known before the first job
    except (ImportError, RuntimeError, OSError, AttributeError) as error:
        connection.send({"fault": f"NVRTC cannot be loaded: {type(error).__name__}: {error}"})
        return
    connection.send({"ready": True})
    while True:
        job = connection.receive()
        try:
            answer = link(job["ptx"], job["arch"]) if "ptx" in job else _compile(nvrtc, job)
        except MemoryError:
            answer = {"result": _OUT_OF_MEMORY, "log": "out of memory"}
        except (OSError, RuntimeError, ValueError, LookupError, subprocess.SubprocessError) as error:
            answer = {"fault": f"{type(error).__name__}: {error}"}
        connection.send(answer)
