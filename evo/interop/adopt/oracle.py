"""The original kernel as its own reference: run on the simulator, in float64 where its types allow that.

Optimising without any other reference is possible with it. It proves that a variant computes what the original does,
and that its rounding is no worse; whether the original computes the right thing, it cannot know.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from evo.device import Arrays, DeviceName, Program, RunRequest
from evo.device.sim_device import SimDevice
from evo.errors import TaskInvalid
from evo.evaluate.prepare import PrepareFailure, prepare
from evo.interop.adopt.host_values import problem
from evo.results import Fault, FaultKind
from evo.spec.chips import chip
from evo.spec.comments import without_comments
from evo.spec.dtypes import NUMPY
from evo.spec.source_text import read_source
from evo.spec.task import Case, Task, read_task

_CHIP, _ARCH = "l4", "sm_89"
BUDGET = 4_000_000_000  # warp instructions of a launch
_TOKEN = re.compile(r"#[ \t]*+include\b[^\n]*|[A-Za-z_]\w*|(?:\d[\d']*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?\b|\S|\s+")
_NUMBER = re.compile(r"((?:\d[\d']*\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?)[fF]")
_BITS = re.compile(
    r"__(?:float|int|uint|half)_as_|reinterpret_cast<\s*(?:const\s+)?(?:unsigned|int|uint)|\bunion\b|\bw?mma\b|\bmma_|\b(?:__)?asm(?:__)?\b"
)
_WORDS = {f"float{count}": f"double{count}" for count in ("", 2, 3, 4)}
_WORDS |= {f"make_float{count}": f"make_double{count}" for count in (2, 3, 4)}
_WORDS |= {"float4": "evo_double4", "make_float4": "evo_four"}  # the runtime compiler warns of double4
_WORDS |= {f"cuC{name}f": f"cuC{name}" for name in ("add", "sub", "mul", "div", "abs", "real", "imag", "fma")}
_WORDS |= {"cuFloatComplex": "cuDoubleComplex", "make_cuFloatComplex": "make_cuDoubleComplex", "cuConjf": "cuConj"}
_WORDS |= {"CUDART_INF_F": "CUDART_INF", "__fdividef": "evo_divided"}
_CALLS = "exp exp2 exp10 expm1 log log2 log10 log1p sqrt rsqrt cbrt fmax fmin fabs fma tanh sinh cosh sin cos tan asin "
_CALLS += "acos atan atan2 erf erfc pow fmod floor ceil round rint trunc hypot copysign nearbyint lrint lround"
_WORDS |= {f"{name}f": name for name in _CALLS.split()}
_WORDS |= {f"__{name}f": name for name in ("exp", "exp10", "log", "log2", "log10", "sin", "cos", "tan", "pow")}
_WORDS |= {"__fsqrt_rn": "sqrt", "__frsqrt_rn": "rsqrt", "__saturatef": "evo_saturated", "__frcp_rn": "evo_inverse"}
_WORDS |= {
    f"__float2{kind}_{way}": f"__double2{kind}_{way}"
    for kind in ("int", "uint", "ll")
    for way in ("rn", "rz", "ru", "rd")
}
_WORDS |= {f"__int2float_{way}": "__int2double_rn" for way in ("rn", "rz")}
_HELPERS = {  # those that a text names: the compiler warns of others
    "evo_divided": "static __device__ inline double evo_divided(double a, double b) { return a / b; }",
    "evo_saturated": "static __device__ inline double evo_saturated(double a) { return fmin(fmax(a, 0.0), 1.0); }",
    "evo_inverse": "static __device__ inline double evo_inverse(double a) { return 1.0 / a; }",
    "evo_double4": "struct __align__(16) evo_double4 { double x, y, z, w; };",
    "evo_four": "static __device__ inline evo_double4 evo_four(double x, double y, double z, double w)"
    " { return {x, y, z, w}; }",
}
_WIDE = {"float32": "float64"}


_OWN_HEADER = re.compile(r'(?m)^#[ \t]*include[ \t]*"((?!cuda|helper_)[^"\n]+)"')
_BYTES = re.compile(r"[(<]\s*(?:const\s+)?char\s*(?:const\s*)?\*\s*[)>]")  # a cast: rows at a distance in bytes


def widened(text: str) -> str | None:
    """A kernel file with `double` for `float`; None if it looks at their bits, or counts in bytes."""
    directives = "\n".join(line for line in text.split("\n") if line.lstrip().startswith("// evo:"))
    code = without_comments(text, keep_lines=True)
    if _BITS.search(code) or _BYTES.search(code):
        return None
    words = []
    for token in _TOKEN.findall(code):
        number = _NUMBER.fullmatch(token)
        words.append(number[1] if number else _WORDS.get(token, token))
    body = "".join(words)
    if body == code:
        return None  # it has no float: as it is, it is exact
    named = set(words)
    if "evo_four" in named:
        named.add("evo_double4")
    helped = "".join(f"{text}\n" for name, text in _HELPERS.items() if name in named)
    directives = re.sub(r"(// evo: scratch \w+ )float32\b", r"\1float64", directives)
    lines = [_twice_shared(line) for line in directives.split("\n")]
    return (
        "\n".join(["// The original with double for float: what it computes before it is rounded.", *lines])
        + f"\n{helped}{body}"
    )


def _twice_shared(line: str) -> str:
    """Room for doubles in the dynamic shared memory."""
    if " launch " not in line:
        return line
    return re.sub(r" shared (?!0\b)(.*?)(?= args |$)", r" shared 2 * (\1)", line)


class Failing(Exception):
    """The kernel faulted, or could not be run. fault: what the simulator saw, None before it ran.

    unwritten: an output of which it left out elements.
    """

    def __init__(self, message: str, fault: Fault | None = None, unwritten: str | None = None) -> None:
        super().__init__(message)
        self.fault, self.unwritten = fault, unwritten


_MENDED_IN_FILE = {  # what no assumption is to blame for
    r"block\.[xyz] = \d+, allowed|threads per block": "a block has 1024 threads at most: mend the launch, or --axis",
    r"parameter \w+: `": "pass arrays as plain pointers, and numbers and small structs by value",
    r"ptxas error": "make it smaller: a block has 48 KB of arrays in shared memory, a thread 255 registers",
    r"\bline \d+: ": "leave it out of the kernel: nothing that a variant does there could be compared",
}


def refusal(failing: Failing, path: Path, text: str, kernels: Mapping[str, int], assumed: str) -> Exception:
    """Why the original cannot be run, at a line of its file. text: as it was tried. kernels: their lines, by name."""
    fault, tried = failing.fault, text.split("\n")
    compiled = re.match(r"original\.cu:(\d+): (?:error|warning #\d+-D): (.*)", str(failing))
    refused = re.search(r"\bline (\d+): (.*)", str(failing))
    placed = compiled or refused
    place = int(placed[1]) if placed is not None else (fault.source_line or 0) if fault is not None else 0
    line = _line_of(path, tried[place - 1]) if 0 < place <= len(tried) else None
    if compiled is not None:
        hint = "mend it, or leave out what needs more headers than CUDA's: kernels are compiled by NVRTC"
        if unknown := re.search(r'identifier "(\w+)" is undefined', compiled[2]):
            hint = f"if nvcc gets it by -D{unknown[1]}=..., give it here: --axis {unknown[1]}=16; else define it"
            wanted = [word for word in _OWN_HEADER.findall(read_source(path)) if not (path.parent / word).is_file()]
            if wanted:
                hint = f"{', '.join(wanted)} is not beside the file: if it is defined there, put that here; {hint}"
        return problem(path, line, f"it does not compile: {compiled[2]}", hint)
    if passed := re.match(
        r"(\w+): parameter \d+ is `[^`]*` named `(\w+)`, `args` passes (\w+).*?(to write)?$", str(failing)
    ):
        hint = f"give kernel and allocation one type, or say which the tensor has: --tensor {passed[3]}:TYPE"
        if passed[4]:
            hint = f"the kernel only reads {passed[3]}, a pointer to `const`: give --out what it writes"
        return problem(path, kernels.get(passed[1]), str(failing), hint)
    hint = f"set with --axis, --tensor or --scalar what is wrong of what was assumed: {assumed}"
    hint = next((to_do for words, to_do in _MENDED_IN_FILE.items() if re.search(words, str(failing))), hint)
    if fault is not None and fault.kind is FaultKind.RACE:
        hint = (
            "mend it first, since no variant could be proven against it. Threads that write one value at once race too:"
            " `atomicExch(&x[i], value)` says the same. Or what it reads is drawn as no program has it, each input by"
            f" itself: {assumed}"
        )
    if fault is not None and fault.kind is FaultKind.BUDGET:
        hint = f"does its loop end? {hint}"
    why = refused[2] if refused is not None else failing
    line = line or next((at for name, at in kernels.items() if f"{name}: " in str(failing)), None)
    return problem(path, line, f"the original does not run on the simulator: {why}", hint)


def _line_of(path: Path, text: str) -> int | None:
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((number for number, line in enumerate(lines, start=1) if line.strip() == text.strip()), None)


@dataclass
class Runner:
    """Runs one text of a task's kernel at any size. wide: the tensors of float32 are passed as float64."""

    task: Task
    text: str
    wide: bool = False
    device: SimDevice = field(default_factory=lambda: SimDevice(DeviceName("sim", _CHIP)))
    _programs: dict[str, Program] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.wide:
            tensors = tuple(replace(t, dtype=_WIDE.get(t.dtype, t.dtype)) for t in self.task.tensors)
            scalars = tuple(replace(s, dtype=_WIDE.get(s.dtype, s.dtype)) for s in self.task.scalars)
            headers = self.task.headers
            self.task = replace(self.task, tensors=tensors, scalars=scalars)
            self.task.__dict__["headers"] = headers  # they were read while the folder was there

    def program(self, case: Case) -> Program:
        """Compiled for one case. Raises Failing."""
        key = repr(sorted(case.axes.items()))
        if key not in self._programs:
            found = prepare(
                self.task,
                self.text,
                chip=chip(_CHIP),
                arch=_ARCH,
                path="original.cu",
                cases=[case],
                addresses=not self._programs,
            )
            if isinstance(found, PrepareFailure):
                raise Failing(found.reason)
            self._programs[key] = found.programs[case.name]
        return self._programs[key]

    def run(self, case: Case, inputs: Arrays, **options: int | bool) -> Arrays:
        """The outputs. options: of a RunRequest. Raises Failing."""
        program = self.program(case)
        asked: Mapping[str, int | bool] = {"check_races": False, "budget": BUDGET, **options}
        request = RunRequest(program=program, inputs=self.typed(case, inputs), **asked)  # type: ignore[arg-type]
        result = self.device.run(request)
        if result.faults:
            raise Failing(result.faults[0].message, result.faults[0])
        return result.outputs[0]

    def typed(self, case: Case, inputs: Arrays) -> Arrays:
        """Inputs as the program of a case takes them."""
        tensors = {tensor.name: tensor for tensor in self.task.inputs}
        return {n: a.astype(NUMPY[tensors[n].dtype]).reshape(tensors[n].dims(case)) for n, a in inputs.items()}


class Original:
    """The kernel that a task was adopted from, beside its reference.py. digest: of the files, which may not change."""

    def __init__(self, reference: str, digest: str) -> None:
        self.folder = Path(reference).parent
        self.digest = digest
        self._runners: dict[bool, Runner] = {}

    def lend(self, plain: Runner, wide: Runner | None) -> None:
        """Take runners that have compiled these texts already."""
        self._runners = {False: plain} | ({True: wide} if wide is not None else {})

    def exact(self, inputs: Arrays, case: dict[str, int], as_is: Sequence[str] = ()) -> Arrays:
        """In float64 if there is such a text, else as it is. as_is: outputs of the original's own precision."""
        found = self._run(inputs, case, wide=(self.folder / "original_float64.cu").is_file())
        return (
            {**found, **{name: values for name, values in self.plain(inputs, case).items() if name in as_is}}
            if as_is
            else found
        )

    def plain(self, inputs: Arrays, case: dict[str, int]) -> Arrays:
        """As it is, in its own precision."""
        return self._run(inputs, case, wide=False)

    def _run(self, inputs: Arrays, case: dict[str, int], *, wide: bool) -> Arrays:
        if wide not in self._runners:
            if digest_of(self.folder) != self.digest:
                hint = "adopt the file again, or restore original.cu: the task is defined by it"
                raise TaskInvalid(f"{self.folder}: original.cu is not what was adopted", hint=hint)
            path = self.folder / ("original_float64.cu" if wide else "original.cu")
            text = path.read_text(encoding="utf-8")
            self._runners[wide] = Runner(read_task(self.folder), text, wide)
        named = Case(name="a case", axes={name: int(value) for name, value in case.items()})
        return self._runners[wide].run(named, inputs)


def digest_of(folder: Path) -> str:
    """Twelve hex digits over the texts of the original."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("original*.cu")):
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
