"""One kernel as it is launched: its template's parameters replaced, plain C linkage, symbols as parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from evo.cuda.source import Param, kernel_signatures
from evo.interop.adopt.by_value import flattened
from evo.interop.adopt.host_expressions import without_torch_types
from evo.interop.adopt.host_records import HostRecords
from evo.interop.adopt.host_values import Launched, problem
from evo.interop.adopt.parameters import deduced_type, template_parameters
from evo.interop.adopt.top_level_items import Item

_HEAD = re.compile(r"\b(?:static|inline|__forceinline__|__noinline__|extern\s+\"C\")\s+")


@dataclass(eq=False)
class Instance:
    """A kernel with its template's arguments. name: in the adopted file."""

    item: Item
    template: dict[str, str]
    name: str
    host: HostRecords
    symbols: list[str] = field(default_factory=list)
    macros: Sequence[str] = ()

    @property
    def text(self) -> str:
        """The kernel in C linkage."""
        node = self.item.inside
        text = node.text
        for name, value in self.template.items():
            text = re.sub(rf"\b{re.escape(name)}\b", value, text)
        text = without_torch_types(text)
        body = text.index("{")
        head = _HEAD.sub("", text[:body])
        if self.name != self.item.names[0]:
            head = re.sub(rf"\b{self.item.names[0]}\b", self.name, head)
        head = re.sub(r"\bvoid\s+__global__", "__global__ void", head)
        return flattened(f'extern "C" {head}{text[body:]}', self.host, self.macros)

    @property
    def params(self) -> list[Param]:
        return kernel_signatures(self.text).get(self.name, [])


def instances_of(
    launches: Sequence[Launched], kernels: Mapping[str, Item], host: HostRecords, macros: Sequence[str]
) -> list[Instance]:
    """For each launch its kernel; one for each kernel and set of template arguments. Raises SyntaxInvalid."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], Instance] = {}
    order = []
    for launched in launches:
        item = kernels[launched.kernel]
        template = _template(item, launched, host.types)
        key = (launched.kernel, tuple(template.items()))
        if key not in found:
            same = sum(known == launched.kernel for known, _ in found)
            name = launched.kernel.rpartition("::")[2]
            found[key] = Instance(item, template, f"{name}_{same + 1}" if same else name, host, [], macros)
        order.append(found[key])
    return order


def _template(item: Item, launched: Launched, types: Mapping[str, str]) -> dict[str, str]:
    """The template's parameters and what they are in this launch."""
    values: dict[str, str] = {}
    for place, param in enumerate(template_parameters(item.node)):
        name = param.name
        if place < len(launched.template):
            value: str | None = launched.template[place]
        else:
            value = deduced_type(item.inside, name, launched.passed) or param.default
        if value is None:
            hint = f"name it at the launch: {launched.kernel}<...><<<grid, block>>>"
            raise problem(item.path, launched.line, f"the template's {name} cannot be told from the arguments", hint)
        values[name] = types.get(value, value)
    return values


def with_symbols(instances: Iterable[Instance], items: list[Item], symbols: Mapping[str, str]) -> dict[Item, str]:
    """Device functions with the `__constant__` arrays that they use as parameters; instances are told of theirs.

    symbols: the arrays that the host fills, and their element types. Returns new texts of device functions.
    """
    uses = {item: {s for s in symbols if s in item.words} for item in items if item.kind in ("kernel", "device")}
    for _ in range(len(uses)):
        for item, own in uses.items():
            for other, theirs in uses.items():
                if other.kind == "device" and other is not item and other.names[0] in item.words:
                    own.update(theirs)
    for instance in instances:
        instance.symbols = sorted(uses.get(instance.item, ()))
    return {item: passed(item.text, sorted(own), symbols, uses) for item, own in uses.items() if item.kind == "device"}


def passed(text: str, own: Sequence[str], symbols: Mapping[str, str], uses: Mapping[Item, set[str]]) -> str:
    """A function that takes symbols as its first parameters, and hands them on to those that take them too."""
    body = text.index("{")
    head, rest = text[:body], text[body:]
    if own:
        opened = _parameters_at(head)
        params = ", ".join(symbols[name] for name in own)
        tail = head[opened:].lstrip()
        head = f"{head[:opened]}{params}{'' if tail.startswith(')') else ', '}{head[opened:]}"
    for other, theirs in uses.items():
        if theirs and other.kind == "device":
            names = ", ".join(sorted(theirs))
            call = rf"\b{other.names[0]}(\s*(?:<[^<>;]*>)?\s*)\("
            rest = re.sub(rf"{call}\s*\)", rf"{other.names[0]}\g<1>({names})", rest)
            again = rf"(?!{re.escape(names)}[,)])"
            rest = re.sub(call + again, rf"{other.names[0]}\g<1>({names}, ", rest)
    return head + rest


def _parameters_at(head: str) -> int:
    """Where a function's parameters begin: behind the bracket that the last one closes."""
    depth = 0
    for place in range(len(head.rstrip()) - 1, -1, -1):
        depth += (head[place] == ")") - (head[place] == "(")
        if head[place] == "(" and depth == 0:
            return place + 1
    return len(head)
