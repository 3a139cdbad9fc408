"""The tile model of a task: the `traffic`, `derive` and `targets` sections of task.yaml.

`traffic` gives bytes between memories as formulas over axes and tile names, for `evo limits`. `derive` gives the tiles
to choose from, what lies in shared memory and in registers, for `evo derive`. Both are optional.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from evo.spec.chips import L4, Chip
from evo.spec.element_types import DTYPES
from evo.spec.expr import Expression, Number, parse
from evo.spec.yaml_fields import Place, YamlFields, is_number

READS = ("ldmatrix", "fragment", "vector", "row", "column", "broadcast")
_NAME = re.compile(r"^[A-Za-z_]\w*$")
_TRAFFIC = ("tiles", "let", "blocks", "materialised", "l2", "shared")
_DERIVE = ("tiles", "let", "require", "threads", "blocks", "steps", "mma", "registers", "shared", "vector")
_SHARED = ("name", "rows", "cols", "dtype", "copies", "reads")
_MOST_CHOICES = 64
_EFFICIENCY = "efficiency"


@dataclass(frozen=True, slots=True, kw_only=True)
class TileTraffic:
    """Formulas over axes and tile names. tiles: the configurations that are shown, the first one the reference.

    blocks: equal pieces of work (0-d grid). materialised: bytes of an implementation that writes every intermediate to
    memory. l2: bytes between L2 and the SMs. shared: bytes read from shared memory. None if the task states none.
    """

    tiles: tuple[dict[str, int], ...] = ()
    let: dict[str, Expression] = field(default_factory=dict)
    blocks: Expression | None = None
    materialised: Expression | None = None
    l2: Expression | None = None
    shared: Expression | None = None

    def names(self, axes: Mapping[str, int], tile: Mapping[str, int]) -> dict[str, Number]:
        return _with_let({**axes, **tile}, self.let)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTile:
    """A matrix in shared memory: rows x cols elements, `copies` of it, and how warps read it."""

    name: str
    rows: Expression
    cols: Expression
    dtype: str
    copies: Expression
    reads: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The `derive` section: what may be chosen and what it costs. Formulas see axes, tiles, `let` and `chip.*`."""

    tiles: dict[str, tuple[int, ...]]
    let: dict[str, Expression]
    require: tuple[Expression, ...]
    threads: Expression
    blocks: Expression
    steps: Expression | None
    mma: Expression | None  # m16n8k16 instructions of all warps
    registers: dict[str, Expression]  # 32-bit registers of a thread, by what they hold
    shared: tuple[SharedTile, ...]
    vector: Expression | None  # bytes of a thread's global load

    def names(self, axes: Mapping[str, int], tile: Mapping[str, int], chip: Chip) -> dict[str, Number]:
        given = {f"chip.{name}": value for name, value in chip.names().items()}
        return _with_let({**axes, **tile, **given}, self.let)


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Microseconds by chip and case as stated, the stated efficiency, and the line of each."""

    stated: dict[str, dict[str, float]] = field(default_factory=dict)
    efficiency: float | None = None
    lines: dict[tuple[str, ...], int | None] = field(default_factory=dict)

    def line(self, *place: str) -> int | None:
        return self.lines.get(place)


def _with_let(names: dict[str, Number], let: Mapping[str, Expression]) -> dict[str, Number]:
    for name, formula in let.items():
        names[name] = formula.value(names)
    return names


class _Section:
    """Reads one section, with complaints that name file, line and field."""

    def __init__(self, fields: YamlFields, key: str, known: tuple[str, ...], axes: Iterable[str]) -> None:
        self.fields, self.key = fields, key
        self.given = fields.mapping(key)
        self.names = set(axes)
        fields.only(self.given, known, (key,))

    def expression(self, text: object, at: Place) -> Expression:
        if isinstance(text, bool) or not isinstance(text, str | int | float):
            raise self.fields.invalid(at, "expected a formula", "write it over axes and tile names")
        found = parse(str(text), path=self.fields.path, line=self.fields.line(*at), real=True)
        for name in sorted(found.names - self.names):
            raise self.fields.invalid(at, f"unknown name {name!r}", f"names: {', '.join(sorted(self.names))}")
        return found

    def optional(self, name: str) -> Expression | None:
        return self.expression(self.given[name], (self.key, name)) if name in self.given else None

    def needed(self, name: str) -> Expression:
        if name not in self.given:
            raise self.fields.invalid((self.key,), f"no `{name}`", f"add `{name}: ...`, a formula")
        return self.expression(self.given[name], (self.key, name))

    def formulas(self, name: str) -> dict[str, Expression]:
        value = self.given.get(name, {})
        at = (self.key, name)
        if not isinstance(value, dict):
            raise self.fields.invalid(at, "expected a mapping of formulas", f"write `{name}: {{NAME: formula}}`")
        return {str(key): self.expression(text, (*at, str(key))) for key, text in value.items()}

    def let(self) -> dict[str, Expression]:
        """Named formulas, each of which sees those above it."""
        value = self.given.get("let", {})
        if not isinstance(value, dict):
            raise self.fields.invalid(
                (self.key, "let"), "expected a mapping of formulas", "write `let: {NAME: formula}`"
            )
        found: dict[str, Expression] = {}
        for name, text in value.items():
            at = (self.key, "let", str(name))
            self._new_name(name, at)
            found[str(name)] = self.expression(text, at)
            self.names.add(str(name))
        return found

    def add_tiles(self, names: Iterable[object]) -> None:
        for name in names:
            self._new_name(name, (self.key, "tiles"))
            self.names.add(str(name))

    def _new_name(self, name: object, at: Place) -> None:
        if not isinstance(name, str) or not _NAME.match(name) or name in self.names:
            raise self.fields.invalid(at, f"{name!r} is not a new name", "give each tile a name that is no axis")


def read_traffic(fields: YamlFields, axes: Mapping[str, str]) -> TileTraffic:
    """The `traffic` section; empty if the task has none. Raises SyntaxInvalid."""
    if not fields.data.get("traffic"):
        return TileTraffic()
    section = _Section(fields, "traffic", _TRAFFIC, axes)
    at: Place = ("traffic", "tiles")
    given = section.given.get("tiles", [])
    if not isinstance(given, list) or not all(isinstance(tile, dict) and tile for tile in given):
        raise fields.invalid(at, "expected a list of configurations", "e.g. tiles: [{BLOCK_M: 64}, {BLOCK_M: 128}]")
    tiles = cast("list[dict[str, int]]", given)
    if tiles:
        section.add_tiles(tiles[0])
    for number, tile in enumerate(tiles):
        if set(tile) != set(tiles[0]):
            raise fields.invalid((*at, number), "names differ from the first one's", f"give {', '.join(tiles[0])}")
        for name, value in tile.items():
            if not _is_size(value):
                raise fields.invalid((*at, number, name), f"{value!r} is not a size", "a positive integer")
    let = section.let()
    return TileTraffic(
        tiles=tuple(dict(tile) for tile in tiles),
        let=let,
        blocks=section.optional("blocks"),
        materialised=section.optional("materialised"),
        l2=section.optional("l2"),
        shared=section.optional("shared"),
    )


def read_choices(fields: YamlFields, axes: Mapping[str, str]) -> Choices | None:
    """The `derive` section; None if the task has none. Raises SyntaxInvalid."""
    if not fields.data.get("derive"):
        return None
    section = _Section(fields, "derive", _DERIVE, [*axes, *(f"chip.{name}" for name in L4.names())])
    at: Place = ("derive", "tiles")
    given = section.given.get("tiles")
    if not isinstance(given, dict) or not given:
        raise fields.invalid(at, "expected tile names with their values", "e.g. tiles: {BLOCK_M: [32, 64, 128]}")
    section.add_tiles(given)
    tiles: dict[str, tuple[int, ...]] = {}
    for name, values in given.items():
        good = isinstance(values, list) and values and all(_is_size(value) for value in values)
        if not good or len(set(values)) != len(values) or len(values) > _MOST_CHOICES:
            raise fields.invalid((*at, str(name)), f"{values!r} is no list of sizes", "distinct positive integers")
        tiles[str(name)] = tuple(values)
    let = section.let()
    require = section.given.get("require", [])
    if not isinstance(require, list):
        raise fields.invalid(("derive", "require"), "expected a list of conditions", "e.g. [BLOCK_M % 16 == 0]")
    return Choices(
        tiles=tiles,
        let=let,
        require=tuple(section.expression(text, ("derive", "require", i)) for i, text in enumerate(require)),
        threads=section.needed("threads"),
        blocks=section.needed("blocks"),
        steps=section.optional("steps"),
        mma=section.optional("mma"),
        registers=section.formulas("registers"),
        shared=tuple(_shared(section)),
        vector=section.optional("vector"),
    )


def _shared(section: _Section) -> Iterable[SharedTile]:
    fields = section.fields
    given = section.given.get("shared", [])
    if not isinstance(given, list):
        raise fields.invalid(("derive", "shared"), "expected a list of tiles", "e.g. [{name: k, rows: ..., cols: ...}]")
    for number, entry in enumerate(given):
        at: Place = ("derive", "shared", number)
        if not isinstance(entry, dict):
            raise fields.invalid(at, "expected a mapping", "e.g. {name: k, rows: BLOCK_N, cols: D, dtype: float16}")
        fields.only(entry, _SHARED, at)
        for name in ("name", "rows", "cols", "dtype"):
            if name not in entry:
                raise fields.invalid(at, f"no `{name}`", f"add `{name}: ...`")
        if entry["dtype"] not in DTYPES:
            raise fields.invalid((*at, "dtype"), f"unknown dtype {entry['dtype']!r}", f"one of {', '.join(DTYPES)}")
        reads = entry.get("reads", [])
        if not isinstance(reads, list) or any(read not in READS for read in reads):
            raise fields.invalid((*at, "reads"), f"unknown access in {reads!r}", f"a list of {', '.join(READS)}")
        if "fragment" in reads and DTYPES[entry["dtype"]] > 4:
            raise fields.invalid((*at, "reads"), f"fragments of {entry['dtype']}", "a fragment's words have 4 bytes")
        yield SharedTile(
            name=str(entry["name"]),
            rows=section.expression(entry["rows"], (*at, "rows")),
            cols=section.expression(entry["cols"], (*at, "cols")),
            dtype=str(entry["dtype"]),
            copies=section.expression(entry.get("copies", 1), (*at, "copies")),
            reads=tuple(reads),
        )


def read_targets(fields: YamlFields, cases: Iterable[str]) -> Targets:
    """The `targets` section: microseconds by chip and case, and `efficiency`, the share of the floor to be reached.

    Raises SyntaxInvalid.
    """
    if not fields.data.get("targets"):
        return Targets()
    known = tuple(cases)
    stated: dict[str, dict[str, float]] = {}
    lines: dict[tuple[str, ...], int | None] = {}
    efficiency: float | None = None
    for chip, figures in fields.mapping("targets").items():
        if chip == _EFFICIENCY:
            lines[(_EFFICIENCY,)] = fields.line("targets", _EFFICIENCY)
            if not is_number(figures) or not 0 < cast(float, figures) <= 1:
                hint = "a share above 0 and at most 1: at 1 the target is the floor itself"
                raise fields.invalid(("targets", _EFFICIENCY), f"{figures!r} is not an efficiency", hint)
            efficiency = float(cast(float, figures))
            continue
        if not isinstance(figures, dict) or not figures:
            raise fields.invalid(("targets", chip), "expected microseconds by case", "e.g. {l4: {b2: 17.0}}")
        for case, value in figures.items():
            if case not in known:
                raise fields.invalid(("targets", chip, str(case)), "no such bench case", f"one of {', '.join(known)}")
            if not is_number(value) or value <= 0:
                raise fields.invalid(("targets", chip, case), f"{value!r} is not a time", "microseconds, more than 0")
            lines[(chip, case)] = fields.line("targets", chip, case)
        stated[chip] = {case: float(value) for case, value in figures.items()}
    return Targets(stated=stated, efficiency=efficiency, lines=lines)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**31
