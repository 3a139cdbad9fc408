"""Cache hints on global accesses: data that is used once need not push out what is used again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from evo.cuda.source import Edit, Function, Param
from evo.operators.rules.rule import Application, Example, Rule, Scene

_TYPES = ("float", "half", "__half", "half2", "__half2", "int", "unsigned", "float2", "float4", "int2", "int4", "uint4")


def _pointers(function: Function) -> Iterator[Param]:
    for param in function.params:
        if function.is_kernel and param.type.removeprefix("const ").removesuffix("*") in _TYPES and param.is_pointer:
            yield param


def _loads(hint: str) -> Callable[[Scene], Iterable[Application]]:
    def find(scene: Scene) -> Iterator[Application]:
        for function in scene.source.functions:
            for param in _pointers(function):
                spans = scene.reads(function, param.name)
                if not spans:
                    continue
                yield Application(
                    edits=tuple(Edit(span, f"{hint}(&{scene.source.slice(span)})") for span in spans),
                    summary=f"{function.name}: {hint} for {len(spans)} reads of {param.name}",
                    arguments={"kernel": function.name, "parameter": param.name, "to": hint},
                )

    return find


def _stores(scene: Scene) -> Iterator[Application]:
    for function in scene.source.functions:
        if not function.is_kernel:
            continue
        pointers = {param.name for param in _pointers(function)} | _local_pointers(scene, function)
        edits: dict[str, list[Edit]] = {}
        for top in scene.source.statements(function):
            for statement in top.all():
                if statement.kind != "assign" or statement.operator != "=" or statement.target is None:
                    continue
                for use in scene.source.subscripts(statement.target):
                    if use.span == statement.target and use.name in pointers and statement.value is not None:
                        target, value = scene.source.slice(use.span), scene.source.slice(statement.value)
                        edits.setdefault(use.name, []).append(Edit(statement.span, f"__stcs(&{target}, {value});"))
        for name, changes in edits.items():
            yield Application(
                edits=tuple(changes),
                summary=f"{function.name}: {len(changes)} streaming stores to {name}",
                arguments={"kernel": function.name, "parameter": name, "to": "__stcs"},
            )


def _local_pointers(scene: Scene, function: Function) -> set[str]:
    """Pointers into a tensor: `T* name = parameter + ...`."""
    names = {param.name for param in _pointers(function)}
    found = set()
    for top in scene.source.statements(function):
        if top.kind == "declare" and top.type.strip().endswith("*") and top.value is not None and not top.dims:
            kind = top.type.strip().removeprefix("const ").removesuffix("*").strip()
            if kind in _TYPES and scene.source.slice(top.value).split(" ")[0] in names:
                found.add(top.name)
    return found


_HEAD = 'extern "C" __global__ void k(const float* a, float* o) '
_COPY = "{}{{\n  {}\n}}\n"
_TEXT = {
    "risk": "slower where the data is in fact read again",
    "next_if_kept": "the other tensors",
    "next_if_reverted": "leave the policy to the cache",
}
_AFTER = "o[threadIdx.x] = {}(&a[threadIdx.x]);"
RULES = (
    Rule(
        name="streaming_load",
        family="cache",
        sentence="Reads one never-written input with `__ldcs`, as data that is used once.",
        find=_loads("__ldcs"),
        examples=(
            Example(
                _COPY.format(_HEAD, "o[threadIdx.x] = a[threadIdx.x];"), _COPY.format(_HEAD, _AFTER.format("__ldcs"))
            ),
        ),
        reason="a stream that is read once need not push out what is used again",
        expected="more of the reused data stays in the caches",
        **_TEXT,
    ),
    Rule(
        name="global_load",
        family="cache",
        sentence="Reads one never-written input with `__ldcg`, past the first-level cache.",
        find=_loads("__ldcg"),
        examples=(
            Example(
                _COPY.format(_HEAD, "o[threadIdx.x] = a[threadIdx.x];"), _COPY.format(_HEAD, _AFTER.format("__ldcg"))
            ),
        ),
        reason="what other blocks share is in L2, and L1 is small",
        expected="L1 is left to the data that a block uses again",
        **_TEXT,
    ),
    Rule(
        name="streaming_store",
        family="cache",
        sentence="Writes one output with `__stcs`, as data that nobody reads soon.",
        find=_stores,
        examples=(
            Example(
                _COPY.format(_HEAD, "o[threadIdx.x] = a[threadIdx.x];"),
                _COPY.format(_HEAD, "__stcs(&o[threadIdx.x], a[threadIdx.x]);"),
            ),
        ),
        reason="results are written once and not read by this kernel",
        expected="inputs that are read again stay in L2",
        **_TEXT,
    ),
)
