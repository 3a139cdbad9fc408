"""The GPU's own checkers, once before a variant is first kept: memcheck, racecheck, initcheck and synccheck.

compute-sanitizer watches a child process that runs the check cases (`evo.device.sanitizer_target`). It checks the
machine code that the driver runs, which the simulator does not see. If it is absent or may not attach, the record
says so.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from evo.device import RunRequest
from evo.results import Fault, FaultKind, SanitizerReport
from evo.spec.child_process import child_environment

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
TOOL_LIMIT_S = 240.0
_PROGRAM = "compute-sanitizer"
_FOUND_CODE = 86  # the exit code that we ask for where something is found
_USUAL_PLACES = ("/usr/local/cuda/bin", "/opt/cuda/bin")

_PREFIX = re.compile(r"^=+ ?", re.MULTILINE)
# The first line of each kind of finding -> the fault's kind.
_FINDINGS = [
    (re.compile(r"Invalid \S+ (?:read|write|atomic|access)", re.IGNORECASE), FaultKind.OUT_OF_BOUNDS),
    (re.compile(r"(?:ERROR: .*(?:hazard|race)|Race reported between)", re.IGNORECASE), FaultKind.RACE),
    (re.compile(r"Uninitialized \S+ memory (?:read|access)", re.IGNORECASE), FaultKind.UNINITIALISED),
    (re.compile(r"Barrier error detected", re.IGNORECASE), FaultKind.BARRIER),
    (re.compile(r"Stack overflow", re.IGNORECASE), FaultKind.STACK_OVERFLOW),
]
_HARMLESS = re.compile(r"^\s*(?:Warning|Info)\b", re.IGNORECASE)
_THREAD = re.compile(r"by thread \((\d+),\s*(\d+),\s*(\d+)\) in block \((\d+),\s*(\d+),\s*(\d+)\)")
_ADDRESS = re.compile(r"\b[Aa]ddress 0x([0-9a-fA-F]+)")
# `at name(arguments)+0x10 in file:line`; without arguments where the name is not mangled, as a kernel's is. The place
# is the innermost function, inlined ones included; `Device Frame:` lines lead from it to the kernel.
_AT_KERNEL = re.compile(r"\bat (?:0x[0-9a-fA-F]+ in )?(?P<name>[A-Za-z_]\w*)\s*(?:<[^\n]*>\s*)?(?:\(|\+0x)")
_FRAME = re.compile(r"Device Frame:\s*(?:\w+ )??(?P<name>[A-Za-z_]\w*)\s*(?:<[^\n]*>\s*)?(?:\(|\+0x|\s|$)")
_AT_OLD = re.compile(r"\bin \S+?:\d+:(?:\w+ )?(?P<name>[A-Za-z_]\w*)\s*\(")
_LINE = re.compile(r"\.(?:cu|cuh|h|hpp):(\d+)")
_SUMMARY = re.compile(r"(?:ERROR SUMMARY|RACECHECK SUMMARY): (\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sanitized:
    """What the checkers said. state: `clean`, `found` or `unavailable`; tools: those that answered."""

    state: str
    tools: tuple[str, ...] = ()
    reason: str | None = None
    fault: Fault | None = None
    report: str = ""  # what the tool that found it wrote

    def shown(self, *, cached: bool = False) -> SanitizerReport:
        """What a record keeps. cached: whether the same machine code was checked earlier in the run."""
        return SanitizerReport(state=self.state, tools=self.tools, reason=self.reason, cached=cached or None)


def find_sanitizer() -> str | None:
    """The tool's path: on PATH, or where a CUDA toolkit puts it."""
    places = [os.environ.get("PATH", os.defpath)]
    places += [str(Path(home) / "bin") for name in ("CUDA_HOME", "CUDA_PATH") if (home := os.environ.get(name))]
    return shutil.which(_PROGRAM, path=os.pathsep.join([*places, *_USUAL_PLACES]))


def sanitize(requests: Sequence[RunRequest], index: str, *, limit_s: float = TOOL_LIMIT_S) -> Sanitized:
    """Run the requests under all four tools, side by side. A tool that cannot run is no verdict against the variant."""
    program = find_sanitizer()
    if program is None:
        return Sanitized(state="unavailable", reason=f"{_PROGRAM} is not installed; it comes with the CUDA toolkit")
    with tempfile.TemporaryDirectory(prefix="evo-sanitize-") as folder:
        file = Path(folder) / "requests"
        file.write_bytes(pickle.dumps(list(requests)))
        kernels = tuple(dict.fromkeys(bound.launch.kernel for r in requests for bound in r.program.launches))

        def run(tool: str) -> _Found | str | None:
            return _run_tool(program, tool, file, index, limit_s, kernels)

        with ThreadPoolExecutor(max_workers=len(TOOLS)) as pool:
            answers = dict(zip(TOOLS, pool.map(run, TOOLS), strict=True))
    silent = {tool: answer for tool, answer in answers.items() if isinstance(answer, str)}
    told = tuple(tool for tool in TOOLS if tool not in silent)
    reason = "; ".join(f"{tool}: {said}" for tool, said in silent.items()) or None
    for tool, answer in answers.items():
        if isinstance(answer, _Found):
            said = f"{tool}: {answer.fault.message}"
            return Sanitized(state="found", tools=told, reason=said, fault=answer.fault, report=answer.report)
    return Sanitized(state="clean" if told else "unavailable", tools=told, reason=reason)


@dataclass(frozen=True, slots=True)
class _Found:
    fault: Fault
    report: str


def _run_tool(
    program: str, tool: str, file: Path, index: str, limit_s: float, kernels: Sequence[str]
) -> _Found | str | None:
    """The first finding of one tool; None if there is none; a text if the tool could not do its work."""
    log = file.with_name(f"{tool}.log")
    command = [program, "--tool", tool, "--error-exitcode", str(_FOUND_CODE), "--print-limit", "20"]
    command += ["--show-backtrace", "device", "--report-api-errors", "no", "--log-file", str(log)]
    command += ["--padding", "64"] if tool == "memcheck" else []
    command += [sys.executable, "-P", "-m", "evo.device.sanitizer_target", str(file), index]
    try:
        code, output = _output(command, limit_s)
    except subprocess.TimeoutExpired:
        return f"did not end within {limit_s:g} s"
    except OSError as error:
        return f"cannot be started: {error.strerror or error}"
    report = log.read_text(errors="replace") if log.is_file() else output
    if (fault := first_finding(report, kernels)) is not None:
        return _Found(fault, report)
    if code == 0 and _SUMMARY.search(report):
        return None
    said = [line for line in (*report.splitlines(), *output.splitlines()) if line.strip("= ")]
    return f"ended with code {code}: {_PREFIX.sub('', said[-1]).strip() if said else 'no output'}"


def _output(command: list[str], limit_s: float) -> tuple[int, str]:
    """Exit code and all that was said. A tool past its limit is killed with the process that it watches."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=child_environment(),
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return process.returncode, output


def first_finding(report: str, kernels: Sequence[str] = ()) -> Fault | None:
    """The first finding in a tool's text output: what, kernel, thread, address and source line.

    kernels: those that were launched; the finding is in one of them, whatever device function it names.
    """
    lines = [_PREFIX.sub("", line) for line in report.splitlines() if line.startswith("=====")]
    for number, line in enumerate(lines):
        kind = next((kind for pattern, kind in _FINDINGS if pattern.search(line)), None)
        if kind is None or _HARMLESS.match(line):
            continue
        details = [line]
        for more in lines[number + 1 :]:
            if not more.startswith((" ", "\t")):
                break
            details.append(more)
        return _fault(kind, details, kernels)
    return None


def _kernel(details: Sequence[str], kernels: Sequence[str]) -> str:
    """The kernel that a finding is in: the outermost frame that is one, the only one there is, or the place's name."""
    frames = [match["name"] for line in details if (match := _FRAME.search(line))]
    places = [match["name"] for line in details if (match := _AT_KERNEL.search(line) or _AT_OLD.search(line))]
    if launched := [name for name in (*reversed(frames), *places) if name in kernels]:
        return launched[0]
    if len(kernels) == 1:
        return kernels[0]
    return next(iter((*reversed(frames), *places)), "")


def _fault(kind: FaultKind, details: list[str], kernels: Sequence[str]) -> Fault:
    text = "\n".join(details)
    if kind is FaultKind.OUT_OF_BOUNDS and "misaligned" in text:
        kind = FaultKind.MISALIGNED
    thread, address, line = _THREAD.search(text), _ADDRESS.search(text), _LINE.search(text)
    numbers = [int(value) for value in thread.groups()] if thread else []
    words = [" ".join(part.split()) for part in details if "Frame:" not in part and "backtrace" not in part.lower()]
    return Fault(
        kind=kind,
        kernel=_kernel(details, kernels),
        message=", ".join(word.rstrip(".") for word in words[:4]),
        source_line=int(line[1]) if line else None,
        thread=(numbers[0], numbers[1], numbers[2]) if numbers else None,
        block=(numbers[3], numbers[4], numbers[5]) if numbers else None,
        address=int(address[1], 16) if address else None,
    )
