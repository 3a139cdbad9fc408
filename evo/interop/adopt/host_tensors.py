"""PyTorch's tensors in host code: launchers of extensions, which take `torch::Tensor` and return it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evo.cuda.source.parser import Node
from evo.interop.adopt.host_numbers import UNKNOWN, HostNumber, applied, substituted
from evo.interop.adopt.host_records import HostRecords
from evo.interop.adopt.host_values import Allocation, DevicePointer, HostEvent
from evo.interop.adopt.python_source import LauncherArgument

_SELF = ("contiguous", "to", "cuda", "detach", "view", "reshape", "sizes", "toType", "squeeze", "unsqueeze", "flatten")
_DEFAULTS = {1: 1 << 20, 2: 1 << 10, 3: 1 << 7}
_LIKE = ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like")


@dataclass(eq=False, slots=True)
class HostTensor:
    """A tensor. dims: None if nothing tells them."""

    memory: Allocation
    dims: tuple[HostNumber, ...] | None

    @property
    def length(self) -> HostNumber:
        total = HostNumber.number(1)
        for dim in self.dims or (UNKNOWN,):
            total = applied("*", total, dim)
        return total


class HostTensors(HostRecords):
    """What methods and functions of PyTorch give, as far as launches depend on them."""

    events: list[HostEvent]
    given: dict[str, int]
    named: dict[str, int | float | None]
    unknown_sizes: list[str]
    beside: Mapping[str, Sequence[HostNumber]]  # dimensions that Python gives the launcher's tensors

    def given_tensor(self, function: Node, name: str, said: LauncherArgument) -> HostTensor:
        """A parameter of the launcher, with dimensions by the names that the code gives them."""
        text = function.text
        memory = Allocation(name, UNKNOWN, function.row + 1, is_parameter=True)
        rank = len(said.dims) if said.dims else _rank(text, name)
        if not rank:
            return HostTensor(memory, None)
        memory.fill = said.fill
        dims = []
        for place in range(rank):
            word, value = None, _DEFAULTS.get(rank, 1 << 5)
            if said.dims:
                known = said.dims[place]
                if isinstance(known.how, tuple) and self._take_sizes(said.sizes):
                    numbers = {name: self.named[name] or 1 for name in known.names}
                    dims.append(HostNumber(int(substituted(known.how, numbers)), known.how))  # type: ignore[call-overload]
                    continue
                word, value = known.how if isinstance(known.how, str) else None, int(known.value or 1)
            word = word or _extent_of(text, name, place, rank) or self._as_others(text, name, place - rank, said)
            if word is None and not said.dims:
                word, number = _checked(text, name, place)
                value = number or value
            elements = rf"\b{name}\s*\.\s*numel\s*\(\s*\)"
            word = word or (_variable(text, elements) if rank == 1 else None)
            if place == 0 and rank == 2:  # all but the last one, `x.numel() / hidden`
                word = word or _variable(text, rf"{elements}\s*/\s*\w+(?:\.size\(-1\))?")
            guessed = self.named.get(word or "")
            if not said.dims and isinstance(guessed, int) and word in self.unknown_sizes:
                value = guessed  # an extent of another tensor
            dims.append(self._dimension(word or f"{name}_{place}", value, is_known=said.dims is not None))
        memory.shape = tuple(dims)
        return HostTensor(memory, tuple(dims))

    def _as_others(self, text: str, name: str, place: int, said: LauncherArgument) -> str | None:
        """What the launcher calls an extent of another tensor that is as long, at the same place from the end."""
        length = said.dims[place].value if said.dims else None
        others = [(o, len(d)) for o, d in self.beside.items() if o != name and len(d) >= -place]
        same = [(other, rank) for other, rank in others if self.beside[other][place].value == length]
        words = (_extent_of(text, other, rank + place, rank) for other, rank in same)
        return next((word for word in words if word), None) if length is not None else None

    def _take_sizes(self, sizes: Mapping[str, int]) -> bool:
        """Whether these names are sizes of the program from here on."""
        values = {name: self.given.get(name, value) for name, value in sizes.items()}
        if any(self.named.get(name, value) != value for name, value in values.items()):
            return False
        self.named.update(values)
        return True

    def _dimension(self, word: str, value: int, *, is_known: bool) -> HostNumber:
        value = self.given.get(word, value)
        if self.named.get(word, value) != value:
            word = self.size_name(word, value)
        self.named[word] = value
        if not is_known and word not in self.given and word not in self.unknown_sizes:
            self.unknown_sizes.append(word)
        return HostNumber.named(word, value)

    def tensor_method(self, held: HostTensor, function: Node, word: str, given: Sequence[Node]) -> object:
        if word in ("data_ptr", "data", "mutable_data_ptr", "const_data_ptr"):
            kind = re.search(r"<\s*([^<>]+?)\s*>$", function.text)
            if kind is not None:
                held.memory.element = self.types.get(kind[1], kind[1])
            return DevicePointer(held.memory)
        if word == "size" and given and held.dims is not None:
            place = self.size(given[0]).value
            fits = place is not None and -len(held.dims) <= place < len(held.dims)
            return held.dims[int(place)] if fits and place is not None else UNKNOWN
        if word == "numel":
            return held.length
        if word in ("dim", "ndimension"):
            return HostNumber.number(len(held.dims)) if held.dims is not None else UNKNOWN
        if word == "clone":
            copy = self._made(held.dims, function.row + 1)
            self.events.append(HostEvent("in", function.row + 1, copy.memory))
            return copy
        return held if word in _SELF else UNKNOWN

    def tensor_function(self, name: str, node: Node, given: Sequence[Node]) -> object:
        """`torch::empty({m, n})`, `torch::zeros_like(x)`."""
        if not given or name not in (*_LIKE, "empty", "zeros", "ones", "full", "rand", "randn"):
            return UNKNOWN
        if given[0].type == "initializer_list":
            found = self._made(tuple(self.size(part) for part in given[0].named_children), node.row + 1)
        else:
            like = self.value(given[0])
            found = self._made(like.dims if isinstance(like, HostTensor) else None, node.row + 1)
        if name.startswith(("zeros", "ones", "full")):
            self.events.append(HostEvent("zero" if name.startswith("zeros") else "fill", node.row + 1, found.memory))
        return found

    def returned(self, node: Node, *, is_last: bool) -> None:
        """A `return`; is_last: of the launcher itself, whose caller gets these tensors."""
        for each in node.walk() if is_last else ():
            cell = self.find(each.text) if each.type == "identifier" else None
            if cell is not None and isinstance(cell.value, HostTensor):
                self.events.append(HostEvent("out", node.row + 1, cell.value.memory))

    def _made(self, dims: tuple[HostNumber, ...] | None, line: int) -> HostTensor:
        known = dims is not None and all(dim.how is not None for dim in dims)
        return HostTensor(Allocation("", UNKNOWN, line, shape=dims if known else None), dims)


def _rank(text: str, name: str) -> int:
    """How many dimensions a launcher asks a tensor for; 0 if it does not say."""
    sizes = [int(place) for place in re.findall(rf"\b{name}\s*\.\s*size\s*\(\s*(-?\d)\s*\)", text)]
    counts = bool(re.search(rf"\b{name}\s*\.\s*numel\b", text))
    from_front = max((place + 1 for place in sizes if place >= 0), default=0)
    from_back = max((-place for place in sizes if place < 0), default=0)
    if from_back >= from_front:  # those in front of them go by their product
        return from_back + (1 if from_back and (counts or from_front) else int(counts))
    return from_front


def _extent_of(text: str, name: str, place: int, rank: int) -> str | None:
    """The variable that is set to this extent of a tensor."""
    return _variable(text, rf"\b{name}\s*\.\s*size\s*\(\s*(?:{place}|{place - rank})\s*\)")


def _variable(text: str, expression: str) -> str | None:
    """The variable that is set to nothing but this, casts aside."""
    cast = r"(?:\(\s*\w+\s*\)\s*|static_cast<\s*\w+\s*>\s*\(\s*|int\s*\(\s*)?"
    match = re.search(rf"\b(\w+)\s*(?:=|\{{|\()\s*{cast}{expression}\s*\)?\s*[;,}}]", text)
    return match[1] if match is not None and match[1] not in ("int", "return") else None


def _checked(text: str, name: str, place: int) -> tuple[str | None, int | None]:
    """The size's name and number as the launcher's TORCH_CHECKs have them: those of an extent that is equal."""
    size = r"(\w+)\s*\.\s*size\s*\(\s*(\d)\s*\)"
    equal: dict[tuple[str, int], set[tuple[str, int]]] = {}
    for one, at, other, there in re.findall(rf"\(\s*{size}\s*==\s*{size}", text):
        equal.setdefault((one, int(at)), set()).add((other, int(there)))
        equal.setdefault((other, int(there)), set()).add((one, int(at)))
    near, waiting = {(name, place)}, [(name, place)]
    while waiting:
        more = equal.get(waiting.pop(), set()) - near
        near |= more
        waiting += more
    parameters = re.findall(r"\bTensor\s*&?\s*(\w+)", text.partition("{")[0])
    named = sorted((parameters.index(one), at) for one, at in near if one in parameters)
    words = (_variable(text, rf"\b{one}\s*\.\s*size\s*\(\s*{at}\s*\)") for one, at in sorted(near))
    word = next((word for word in words if word), None)
    if word is None and len(near) > 1 and named:
        word = f"{parameters[named[0][0]]}_{named[0][1]}"
    numbers = (re.search(rf"\b{one}\s*\.\s*size\s*\(\s*{at}\s*\)\s*==\s*(\d+)\b", text) for one, at in near)
    return word, next((int(match[1]) for match in numbers if match is not None), None)
