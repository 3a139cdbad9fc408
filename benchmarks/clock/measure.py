"""Measure the clock's data set on the GPU at hand: `variants.py`'s variants, timed warm, with machine code and counts.

    python benchmarks/clock/measure.py VARIANTS.tar.xz OUT_FOLDER [--seconds 420] [--no-gpu]

Processes compile each variant and execute it on the simulator for its counts; another, alone on the GPU, times it.
A variant that fails, hangs or ends its process is a row with a reason. OUT_FOLDER gets `rows.jsonl.xz` (a line for each
variant, see README.md) and `code-N.jsonl.xz` (its PTX and machine code).

Timing: a CUDA graph of m launches over three sets of inputs and two of outputs in turns, as `evo bench` does it;
m fills 300 us. p50 of 11 replays, divided by m. `again` is the p50 of a second capture, taken at the end for some.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import lzma
import math
import multiprocessing as mp
import os
import queue
import random
import signal
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

SETS, OUTPUTS, SAMPLES, FILL_US = 3, 2, 11, 300.0
COUNT_S, WORK_S = 20, 60
AGAIN = 250  # variants timed twice
_STOP = None


def inputs_of(root: Path, task: Any, axes: dict[str, int]) -> dict[str, Any]:
    """Input arrays of a case, drawn with a fixed seed."""
    import numpy as np

    from evo.spec.dtypes import NUMPY
    from evo.spec.reference import load_module

    module = load_module(root / "kernels" / task.name / "reference.py")
    drawn = module.inputs(axes, np.random.default_rng(0))
    found = {}
    for tensor in task.tensors:
        if tensor.role in ("in", "inout"):
            array = np.asarray(drawn[tensor.name])
            found[tensor.name] = np.ascontiguousarray(array.astype(NUMPY[tensor.dtype], copy=False))
    return found


# --- compile and count


class _TooLong(Exception):
    pass


def _alarm(*_: object) -> None:
    raise _TooLong


def prepare_worker(link: Connection, root: Path, arch: str, chip_name: str, count: bool) -> None:
    """Rows in; (row without text, program, code) out."""
    from evo.device import parse_device, sim_execution
    from evo.device.sim_device import SimDevice

    sim_execution._THREADS = 1  # the processes are parallel
    device = SimDevice(parse_device(f"sim:{chip_name}")) if count else None
    signal.signal(signal.SIGALRM, _alarm)
    inputs: dict[tuple[str, str], Any] = {}
    while (row := link.recv()) is not _STOP:
        try:
            link.send(_prepared(row, root, arch, chip_name, device, inputs))
        except Exception as error:  # noqa: BLE001  the row's, whatever it is
            link.send(({"id": row["id"], "error": f"{type(error).__name__}: {error}"[:300]}, None, None))


def _prepared(
    row: dict[str, Any], root: Path, arch: str, chip_name: str, device: Any, inputs: dict[tuple[str, str], Any]
) -> tuple[Any, Any, Any]:
    from counting import counted

    from evo.evaluate.prepare import PrepareFailure, prepare
    from evo.sim.timing_model import MODEL_VERSION
    from evo.spec.chips import chip
    from evo.spec.task import Case, load_task

    began = time.perf_counter()
    task = load_task(root, row["task"])
    case = Case(name=row["case"], axes=row["axes"])
    found = prepare(task, row["text"], chip=chip(chip_name), arch=arch, cases=[case], static_rules=False)
    if isinstance(found, PrepareFailure):
        return {"id": row["id"], "error": f"{found.stage}: {found.reason}"[:300]}, None, None
    program = found.programs[case.name]
    done: dict[str, Any] = {"id": row["id"], "code_hash": found.code_hash, "compile_s": time.perf_counter() - began}
    done["kernels"] = {
        k.name: {
            "registers": k.registers, "spill_store_bytes": k.spill_store_bytes, "spill_load_bytes": k.spill_load_bytes,
            "stack_bytes": k.stack_bytes, "shared_bytes": k.shared_bytes, "sass": k.sass,
        }
        for k in program.binary.kernels
    }  # fmt: skip
    launches = [bound.launch for bound in program.launches]
    done["launches"] = [
        {"kernel": one.kernel, "grid": one.grid, "block": one.block, "shared_bytes": one.shared_bytes}
        for one in launches
    ]
    done["memsets"] = [s.size_bytes for s in program.scratch if s.init == "zero"]
    done["memsets"] += [b.size_bytes for b in program.outputs if b.init == "zero"]
    if device is not None:
        key = (task.name, case.name)
        if key not in inputs:
            inputs.clear()
            inputs[key] = inputs_of(root, task, case.axes)
        began = time.perf_counter()
        signal.alarm(COUNT_S)
        try:
            found = counted(device, program, inputs[key])
            done |= {**found.fields(), "model": MODEL_VERSION, "modelled_us": found.modelled_us}
        except _TooLong:
            done["not_counted"] = "too long"
        except Exception as error:  # noqa: BLE001
            done["not_counted"] = f"{type(error).__name__}: {error}"[:200]
        finally:
            signal.alarm(0)
        done["count_s"] = time.perf_counter() - began
    code = {"id": row["id"], "ptx": program.binary.ptx, "cubin": base64.b64encode(program.binary.cubin).decode()}
    return done, program, code


# --- time


def timing_worker(link: Connection, root: Path, capability: int) -> None:
    """Programs in; times out. A fault that loses the context ends this process."""
    import cupy

    from evo.spec.task import load_task

    stream = cupy.cuda.Stream(non_blocking=True)
    buffers: dict[tuple[str, str], Any] = {}
    link.send({"clock_mhz": _clock_mhz()})
    while (asked := link.recv()) is not _STOP:
        row, program = asked
        if program is None:
            link.send({"clock_mhz": _clock_mhz()})
            continue
        try:
            key = (row["task"], row["case"])
            if key not in buffers:
                if len(buffers) > 12:
                    buffers.clear()
                buffers[key] = _placed(inputs_of(root, load_task(root, row["task"]), row["axes"]), cupy)
            link.send(_timed(program, buffers[key], stream, capability))
        except Exception as error:  # noqa: BLE001
            link.send({"error": f"{type(error).__name__}: {error}"[:300], "fatal": True})
            return


def _placed(inputs: dict[str, Any], cupy: Any) -> list[dict[str, Any]]:
    return [{name: cupy.asarray(array) for name, array in inputs.items()} for _ in range(SETS)]


def _timed(program: Any, placed: list[dict[str, Any]], stream: Any, capability: int) -> dict[str, Any]:
    import cupy

    from evo.device import place_of
    from evo.device.gpu_load import Sequence, load

    loaded = load(program.binary, capability)
    kept = []
    outputs = []
    for _ in range(OUTPUTS):
        memory = {b.name: cupy.zeros(max(b.size_bytes, 16), cupy.uint8) for b in program.outputs}
        kept.append(memory)
        outputs.append({name: array.data.ptr for name, array in memory.items()})
    scratch = {s.name: cupy.zeros(max(s.size_bytes, 16), cupy.uint8) for s in program.scratch}
    sequences = []
    for number in range(SETS * OUTPUTS):
        of = placed[number % SETS]
        addresses = {place_of(program, name): array.data.ptr for name, array in of.items()}
        addresses |= outputs[number % OUTPUTS] | {name: array.data.ptr for name, array in scratch.items()}
        sequences.append(Sequence(program, loaded, addresses))
    cupy.cuda.Device().synchronize()
    with stream:
        sequences[0].execute(stream)
        rough = max(min(_elapsed(stream, lambda: sequences[1].enqueue(stream)) for _ in range(3)), 1.0)
        for _ in range(2):  # a launch by itself takes longer than one of a graph, so the first guess is too few
            each = max(1, math.ceil(FILL_US / rough))
            if rough < 2000:
                each = min(-(-each // len(sequences)) * len(sequences), 300)
            stream.begin_capture()
            for number in range(each):
                sequences[number % len(sequences)].enqueue(stream)
            graph = stream.end_capture()
            graph.upload(stream)
            for _ in range(3):
                graph.launch(stream)
            stream.synchronize()
            rough = _elapsed(stream, partial(graph.launch, stream)) / each
            if each * rough > FILL_US / 2 or each == 300:
                break
        times = [_elapsed(stream, lambda: graph.launch(stream)) / each for _ in range(SAMPLES)]
    del kept
    attributes = {}
    for bound in program.launches:
        kernel = loaded.kernel(bound.launch.kernel)
        attributes[bound.launch.kernel] = {"registers": kernel.num_regs, "local_bytes": kernel.local_size_bytes}
    return {"times_us": [round(t, 4) for t in times], "each": each, "loaded": loaded.how, "attributes": attributes}


def _elapsed(stream: Any, what: Any) -> float:
    import cupy

    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    begin.record(stream)
    what()
    end.record(stream)
    end.synchronize()
    return float(cupy.cuda.get_elapsed_time(begin, end)) * 1000


_CLOCK = r"""
extern "C" __global__ void ticks(unsigned long long* out, float* sink) {
    unsigned long long ns, after; float r = threadIdx.x;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    const long long c = clock64();
    for (int i = 0; i < 2000000; ++i) r = r * 1.0001f + 0.5f;
    const long long d = clock64() - c;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(after));
    if (r == 7.0f) *sink = r;
    if (threadIdx.x == 0 && blockIdx.x == 0) { out[0] = d; out[1] = after - ns; }
}
"""


def _clock_mhz() -> float:
    """The SMs' clock under load, from cycle counter and timer."""
    import cupy

    kernel = cupy.RawKernel(_CLOCK, "ticks")
    out, sink = cupy.zeros(2, cupy.uint64), cupy.zeros(1, cupy.float32)
    for _ in range(3):
        kernel((264,), (256,), (out, sink))
    cupy.cuda.Device().synchronize()
    ticks, ns = (int(v) for v in out.get())
    return round(1000 * ticks / max(ns, 1), 1)


# --- the parent


class Child:
    """A process that answers one message at a time, replaced when it hangs or ends."""

    def __init__(self, target: Any, arguments: tuple[Any, ...]) -> None:
        self.target, self.arguments = target, arguments
        self.process: Any = None

    def start(self) -> None:
        context = mp.get_context("spawn")
        self.link, theirs = context.Pipe()
        self.process = context.Process(target=self.target, args=(theirs, *self.arguments), daemon=False)
        self.process.start()
        theirs.close()

    def ask(self, message: Any, limit_s: float) -> Any:
        """Its answer, or None where there is none."""
        try:
            if message is not None:
                self.link.send(message)
            if self.link.poll(limit_s):
                return self.link.recv()
        except (EOFError, OSError):
            pass
        return None

    def stop(self) -> None:
        if self.process is None:
            return
        with contextlib.suppress(OSError):
            self.link.send(_STOP)
        self.process.join(2)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process = None


class Run:
    def __init__(self, rows: list[dict[str, Any]], root: Path, out: Path, asked: argparse.Namespace) -> None:
        self.rows, self.root, self.out, self.asked = rows, root, out, asked
        self.began = time.monotonic()
        self.waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        for row in rows:
            self.waiting.put(row)
        self.ready: queue.SimpleQueue[tuple[dict[str, Any], Any] | None] = queue.SimpleQueue()
        self.done: dict[str, dict[str, Any]] = {}
        self.code: list[dict[str, Any]] = []
        self.clocks: list[float] = []
        self.lock = threading.Lock()

    @property
    def left_s(self) -> float:
        return float(self.asked.seconds) - (time.monotonic() - self.began)

    def prepare(self) -> None:
        child = Child(prepare_worker, (self.root, self.asked.arch, self.asked.chip, not self.asked.no_counts))
        child.start()
        while self.left_s > 20:
            try:
                row = self.waiting.get_nowait()
            except queue.Empty:
                break
            answer = child.ask(row, WORK_S)
            if answer is None:
                child.process.kill()
                child.stop()
                child.start()
                answer = ({"id": row["id"], "error": "its process hung or ended"}, None, None)
            done, program, code = answer
            done |= {name: value for name, value in row.items() if name != "text"}
            with self.lock:
                self.done[row["id"]] = done
                if code is not None:
                    self.code.append({"family": row["family"], **code})
            if program is not None:
                self.ready.put((row, program))
        child.stop()

    def time(self) -> None:
        child = self._timer()
        timed = []
        while (item := self.ready.get()) is not None and self.left_s > 10:
            row, program = item
            child = self._one(child, row, program, "")
            timed.append(item)
        random.Random(1).shuffle(timed)
        for row, program in timed[:AGAIN]:
            if self.left_s < 8:
                break
            child = self._one(child, row, program, "again_")
        if (answer := child.ask(({}, None), 30)) is not None:
            self.clocks.append(answer["clock_mhz"])
        child.stop()

    def _timer(self) -> Child:
        child = Child(timing_worker, (self.root, int(self.asked.arch.partition("_")[2])))
        child.start()
        answer = child.ask(None, 120)
        if answer is None:
            raise SystemExit("the timing process does not start")
        self.clocks.append(answer["clock_mhz"])
        return child

    def _one(self, child: Child, row: dict[str, Any], program: Any, prefix: str) -> Child:
        answer = child.ask((row, program), 30)
        if answer is None or answer.pop("fatal", False):
            child.process.kill()
            child.stop()
            child = self._timer()
        answer = answer or {"error": "the timing process hung or ended"}
        with self.lock:
            self.done[row["id"]] |= {f"{prefix}{name}": value for name, value in answer.items()}
        return child

    def write(self) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        head = {
            "clocks_mhz": self.clocks,
            "arch": self.asked.arch,
            "chip": self.asked.chip,
            "seconds": time.monotonic() - self.began,
        }
        rows = sorted(self.done.values(), key=lambda row: (row["family"], row["id"]))
        _write(self.out / "rows.jsonl.xz", [{"about": head}, *rows])
        code = sorted(self.code, key=lambda row: (row["family"], row["id"]))
        files = self.asked.files
        parts = [code[len(code) * i // files : len(code) * (i + 1) // files] for i in range(files)]
        with ThreadPoolExecutor(files) as pool:  # lzma lets go of the lock
            list(pool.map(lambda i: _write(self.out / f"code-{i}.jsonl.xz", parts[i]), range(files)))


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    path.write_bytes(lzma.compress(text.encode(), preset=5))


def main(words: Sequence[str]) -> int:
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    made.add_argument("variants", type=Path)
    made.add_argument("out", type=Path)
    made.add_argument("--seconds", type=float, default=420)
    made.add_argument("--arch", default="sm_90")
    made.add_argument("--chip", default="h200")
    made.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    made.add_argument("--most", type=int, default=10**9, metavar="N", help="only the first N variants")
    made.add_argument("--only", default="", metavar="TEXT", help="only families with this in their name")
    made.add_argument("--files", type=int, default=6, metavar="N", help="files of machine code")
    made.add_argument("--no-gpu", action="store_true", help="compile and count only")
    made.add_argument("--no-counts", action="store_true", help="compile and time only")
    asked = made.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with tarfile.open(asked.variants) as archive:
            archive.extractall(root, filter="data")
        rows = json.loads((root / "variants.json").read_text(encoding="utf-8"))
        rows = [row for row in rows if asked.only in row["family"]][: asked.most]
        run = Run(rows, root, asked.out, asked)
        preparing = [threading.Thread(target=run.prepare) for _ in range(asked.workers)]
        timing = threading.Thread(target=run.time)
        for thread in preparing:
            thread.start()
        if not asked.no_gpu:
            timing.start()
        for thread in preparing:
            thread.join()
        run.ready.put(None)
        if not asked.no_gpu:
            timing.join()
        run.write()
    failed = [row for row in run.done.values() if "error" in row]
    good = [row for row in run.done.values() if "times_us" in row]
    uncounted = [row for row in run.done.values() if "not_counted" in row]
    done = f"{len(run.done)} of {len(rows)} variants, {len(good)} timed"
    print(f"{done}, {len({row['family'] for row in good})} families")
    print(f"{len(failed)} failed, {len(uncounted)} not counted, clocks {run.clocks} MHz")
    print(f"{time.monotonic() - run.began:.0f} s")
    for row in [*failed[:20], *uncounted[:20]]:
        print(f"  {row['family']} {row['id']}: {row.get('error') or row.get('not_counted')}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
