"""A YAML file as a mapping, with the line of each field; errors name file, line and field.

Knows YAML, no task.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

import yaml
from yaml.constructor import SafeConstructor

from evo.errors import SyntaxInvalid, known_words

_FAST: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT = "tag:yaml.org,2002:str"
_DEEPEST = 100  # fields within fields
Place = tuple[str | int, ...]


class YamlFields:
    """The fields of one YAML file. Raises SyntaxInvalid naming file and line where it is not a mapping."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.lines: dict[Place, int] = {}
        try:
            node = self._composed(text)
            data = SafeConstructor().construct_document(node) if node is not None else None
            if node is not None:
                self._index(node, ())
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            problem = getattr(error, "problem", None) or "not YAML"
            hint = "indent with spaces" if "\\t" in problem else "fix the YAML syntax"
            raise SyntaxInvalid(path, mark.line + 1 if mark else None, problem, hint=hint) from None
        except RecursionError:
            raise SyntaxInvalid(path, None, "nested too deeply", hint="fields are a few levels deep") from None
        except ValueError as error:  # a date that no calendar has, a number with thousands of digits
            raise SyntaxInvalid(path, None, f"not YAML: {error}", hint="put texts in quotes") from None
        if not isinstance(data, dict):
            raise SyntaxInvalid(path, 1, f"{path.name} is not a mapping", hint="start with `name: ...`")
        self.data = cast(dict[str, object], data)

    def _composed(self, text: str) -> yaml.Node | None:
        """By the C library where there is one; what that refuses is read again by the parser that says why."""
        try:
            self._refuse_what_grows(text, _FAST)
            return yaml.compose(text, Loader=_FAST)
        except yaml.YAMLError:
            self._refuse_what_grows(text, yaml.SafeLoader)
            return yaml.compose(text, Loader=yaml.SafeLoader)

    def _refuse_what_grows(self, text: str, loader: type[yaml.SafeLoader]) -> None:
        """Ten lines of aliases to aliases stand for more fields than memory holds, and no file of ours needs one."""
        depth = 0
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise RecursionError
            if isinstance(event, yaml.AliasEvent):
                mark = event.start_mark
                line = mark.line + 1 if mark else None
                raise SyntaxInvalid(self.path, line, f"an alias (*{event.anchor})", hint="write the value out")

    def _index(self, node: yaml.Node, at: Place) -> None:
        self.lines.setdefault(at, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                place = (*at, key.value if isinstance(key, yaml.ScalarNode) else str(key.start_mark.line))
                if place in self.lines:  # YAML lets the last one win, and the reader of the file sees the first
                    hint = f"it stands in line {self.lines[place]} already; keep one"
                    raise SyntaxInvalid(self.path, key.start_mark.line + 1, f"field `{words(place)}`: twice", hint=hint)
                self.lines[place] = key.start_mark.line + 1
                if isinstance(key, yaml.ScalarNode) and key.tag != _TEXT:  # by what it stands for, too
                    self.lines.setdefault((*at, SafeConstructor().construct_object(key)), key.start_mark.line + 1)
                self._index(value, place)
        elif isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                self._index(value, (*at, number))

    def invalid(self, at: Place, problem: str, hint: str) -> SyntaxInvalid:
        return SyntaxInvalid(self.path, self.line(*at), f"field `{words(at)}`: {problem}", hint=hint)

    def line(self, *at: str | int) -> int | None:
        """Where a field stands, or the nearest field around it that is there."""
        while at and at not in self.lines:
            at = at[:-1]
        return self.lines.get(at)

    def only(self, entry: Iterable[object], known: Iterable[str], at: Place = ()) -> None:
        """Raises SyntaxInvalid for a field of a mapping that is none of those known. at: where the mapping stands."""
        known = tuple(known)
        for name in entry:
            if name not in known:
                raise self.invalid((*at, cast(str, name)), "unknown field", known_words("fields", str(name), known))

    def mapping(self, key: str) -> dict[str, object]:
        value = self.data.get(key)
        if not isinstance(value, dict) or not value:
            raise self.invalid((key,), "expected a mapping with at least one entry", f"write `{key}: {{name: value}}`")
        for name in value:
            if not isinstance(name, str):
                raise self.invalid(
                    (key, name), f"{name!r} is not a name", "names are text; quote what YAML reads as more"
                )
        return cast(dict[str, object], value)

    def entries(self, key: str) -> Iterator[tuple[int, dict[str, object]]]:
        value = self.data.get(key)
        if not isinstance(value, list) or not value:
            raise self.invalid((key,), "expected a list with at least one entry", f"write `{key}: [...]`")
        for number, entry in enumerate(value):
            if not isinstance(entry, dict):
                raise self.invalid((key, number), "expected a mapping", "write `- {name: ..., ...}`")
            yield number, entry


def words(at: Place) -> str:
    """A place as people write it: `tensors.0.dtype`."""
    return ".".join(map(str, at))


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
