"""The files of a task folder: task.yaml, an empty ladder, and a skeleton with the right parameters."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from evo.spec.element_types import ELEMENT_TYPES

_LEAST_FACTOR, _MOST_FACTOR = 2, 64
_PLAIN = re.compile(r"[A-Za-z][\w .,:'()/-]*")
_C_WORDS = frozenset(
    """auto bool break case char class const continue default delete do double else enum extern false float for goto if
    inline int long namespace new operator private public register return short signed sizeof static struct switch
    template this true typedef union unsigned using virtual void volatile while half min max""".split()  # noqa: SIM905
)


@dataclass(frozen=True)
class TensorLine:
    name: str
    role: str
    dtype: str
    shape: Sequence[str]
    domain: str | None = None
    low: str | None = None
    high: str | None = None


@dataclass(frozen=True)
class ScalarLine:
    name: str
    dtype: str
    value: str


@dataclass(frozen=True)
class ToleranceLine:
    rtol: float
    atol: float
    because: str
    factor: int = _LEAST_FACTOR


def template(name: str) -> str:
    """A text that is written for people, with places in braces."""
    return files(__package__).joinpath("templates", f"{name}.txt").read_text(encoding="utf-8")


def order_factor(terms: float) -> int:
    """The allowed error of a kernel that adds up so many numbers, as a multiple of torch's or NumPy's error.

    They add in blocks, with an error that hardly grows; one number after the other, as most kernels do, it grows with
    the root of the terms: measured over 64 to 65536 terms, to 0.13 to 0.3 times the root. Twice that is allowed.
    """
    return max(_LEAST_FACTOR, min(round(math.sqrt(terms) / 2), _MOST_FACTOR))


@dataclass(frozen=True, kw_only=True)
class TaskText:
    """The content of a task.yaml."""

    name: str
    description: str
    axes: Sequence[str]
    tensors: Sequence[TensorLine]
    tolerance: ToleranceLine
    check: Mapping[str, Mapping[str, int]]
    bench: Mapping[str, Mapping[str, int]]
    work: Mapping[str, str]
    scalars: Sequence[ScalarLine] = ()
    headline: str | None = None  # None: the first of `bench`
    score: Mapping[str, float] | None = None

    def write(self, into: Path, reference: str, others: Mapping[str, bytes]) -> None:
        """Write the whole folder; existing files are replaced."""
        (into / "ladder").mkdir(parents=True, exist_ok=True)
        (into / "ladder" / ".gitkeep").touch()
        (into / "task.yaml").write_text(self.yaml(), encoding="utf-8")
        (into / "reference.py").write_text(reference, encoding="utf-8")
        (into / "skeleton.cu").write_text(self.skeleton(), encoding="utf-8")
        for name, content in others.items():
            (into / name).write_bytes(content)

    def yaml(self) -> str:
        lines = [f"name: {self.name}", f"description: {quoted(self.description)}"]
        lines.append(f"axes: {{{', '.join(f'{axis}: int' for axis in self.axes)}}}")
        lines.append("tensors:")
        for tensor in self.tensors:
            domain = f", domain: {tensor.domain}" if tensor.domain else ""
            ends = [f", {end}: {text}" for end, text in (("low", tensor.low), ("high", tensor.high)) if text]
            domain = "".join(ends) + domain
            shape = ", ".join(tensor.shape)
            kind = f"role: {tensor.role}, dtype: {tensor.dtype}"
            lines.append(f"  - {{name: {quoted(tensor.name)}, {kind}, shape: [{shape}]{domain}}}")
        lines += ["scalars:"] if self.scalars else []
        lines += [f"  - {{name: {one.name}, dtype: {one.dtype}, value: {quoted(one.value)}}}" for one in self.scalars]
        limits = self.tolerance
        lines.append("tolerance:")
        lines.append(f"  rtol: {limits.rtol!r}")
        lines.append(f"  atol: {limits.atol!r}")
        lines.append(f"  rival_error_factor: {limits.factor}")
        lines.append(f"  because: {quoted(limits.because)}")
        lines.append("check:")
        lines += [f"  - {{name: {name}, {axes_text(case)}}}".replace(", }", "}") for name, case in self.check.items()]
        lines.append("bench:")
        lines += [f"  {name}: {{{axes_text(case)}}}" for name, case in self.bench.items()]
        lines.append(f"headline: {self.headline or next(iter(self.bench))}")
        if self.score:
            lines.append(f"score: {{{', '.join(f'{name}: {weight:g}' for name, weight in self.score.items())}}}")
        if self.work:
            lines.append("work:")
            lines += [f"  {name}: {formula}" for name, formula in self.work.items()]
        return "\n".join(lines) + "\n"

    def skeleton(self) -> str:
        """A kernel with an empty body that compiles."""
        headers = dict.fromkeys(one for t in self.tensors if (one := ELEMENT_TYPES[t.dtype].header))
        output = next(tensor for tensor in self.tensors if tensor.role == "out")
        count = " * ".join(f"({dim})" if not dim.isidentifier() else dim for dim in output.shape)
        parameters = []
        for tensor in self.tensors:
            const = "const " if tensor.role == "in" else ""
            parameters.append(f"{const}{ELEMENT_TYPES[tensor.dtype].c_types[0]}* __restrict__ {c_name(tensor.name)}")
        parameters += [f"{ELEMENT_TYPES[one.dtype].c_types[0]} {c_name(one.name)}" for one in self.scalars]
        parameters += [f"int {c_name(axis)}" for axis in self.axes]
        return template("skeleton.cu").format(
            name=self.name,
            output=output.name,
            count=count,
            elements=" * ".join(_wide(dim) for dim in output.shape),
            parameters=",\n    ".join(parameters),
            includes="".join(f"#include <{header}>\n" for header in headers),
        )


def c_name(name: str) -> str:
    return f"{name}_" if name in _C_WORDS else name


def quoted(text: str) -> str:
    """A text as one YAML scalar on one line."""
    flat = " ".join(text.split())
    if (
        _PLAIN.fullmatch(flat)
        and ": " not in flat
        and flat.lower() not in ("on", "off", "yes", "no", "true", "null", "false")
    ):
        return flat
    return '"' + flat.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _wide(dim: str) -> str:
    return dim if dim.isidentifier() or dim.isdigit() else f"({dim.replace('//', '/')})"


def axes_text(case: Mapping[str, int]) -> str:
    """The axes of a case as YAML has them."""
    return ", ".join(f"{axis}: {value}" for axis, value in case.items())
