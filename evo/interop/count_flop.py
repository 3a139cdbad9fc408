"""The products that a module computes, counted while it runs: matrix products, convolutions and attention.

Only these are counted: elementwise arithmetic and reductions take less time than their bytes, so they never bind.
A count is a lower bound only if every kernel needs it. `fewer` says why a kernel may need fewer: it need not multiply
by zeros at fixed places, nor compute products that are only summed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

# Operations that return a product's elements unchanged, or a linear function of each.
_LINEAR = """view _unsafe_view reshape permute transpose t expand unsqueeze squeeze clone _to_copy alias contiguous
detach cat stack add add_ sub sub_ mul mul_ div div_ neg split split_with_sizes unbind slice""".split()  # noqa: SIM905
_SCALING = ("mul", "mul_", "div", "div_")  # by a tensor of the same shape it is not
# Operations that read only some elements, or only their sums.
_SUMMING = """sum mean cumsum diagonal diag trace select index index_select gather avg_pool1d avg_pool2d avg_pool3d
_adaptive_avg_pool2d _adaptive_avg_pool3d""".split()  # noqa: SIM905
_FEW_ZEROS = 0.05
_ADDING = re.compile("sum|mean|var|std|norm|loss|entropy|avg_pool|dist|dot|mv")
TRANSPOSED = "transposed convolution"

Zeros = list[Any]


class Products(TorchDispatchMode):  # type: ignore[misc]
    """calls: operation and FLOP of each product, in order. zeros: the places of zeros in its operands, if requested.

    fewer: why a kernel may need fewer, as far as operations say; or ''. longest: terms of the longest sum in it.
    """

    def __init__(self, *, on_values: bool = False) -> None:
        super().__init__()
        self.on_values = on_values
        self.calls: list[tuple[str, int]] = []
        self.zeros: Zeros = []
        self.fewer = ""
        self.longest = 1
        self._made: dict[int, Any] = {}  # results of products; a reference keeps each id unique

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        packet = func._overloadpacket
        word = packet.__name__
        given = [value for value in _tensors(args) if value.is_floating_point()]
        self.longest = max(self.longest, _terms(word, given, _tensors((result,)), args))
        if packet in flop_registry:
            count = int(flop_registry[packet](*args, **kwargs, out_val=result))
            made = _tensors((result,))
            self._of_product(given, made[:1], word)
            named = dict(zip((one.name for one in func._schema.arguments), args, strict=False)) | kwargs
            if named.get("is_causal") or any(named.get(name) is not None for name in ("attn_mask", "attn_bias")):
                self.fewer = self.fewer or "its attention is masked"
            if count:
                self.calls.append((TRANSPOSED if named.get("transposed") else word, count))
        elif any(id(value) in self._made for value in given):
            if word in _SUMMING:
                self._fewer_by(word)
            elif word in _LINEAR and not (word in _SCALING and len({v.numel() for v in given}) < len(given)):
                self._made.update((id(value), value) for value in _tensors((result,)))
        return result

    def _fewer_by(self, word: str) -> None:
        self.fewer = self.fewer or f"{word.strip('_')} reads the result of a product directly"

    def _of_product(self, given: list[Any], made: list[Any], word: str) -> None:
        if any(id(value) in self._made and value.numel() > made[0].numel() for value in given):
            self._fewer_by(word)
        self._made.update((id(value), value) for value in made)
        if self.on_values:
            self.zeros += [value == 0 for value in given if value.dim() >= 2]


def _terms(word: str, given: list[Any], made: list[Any], args: Any) -> int:
    """About how many numbers are added for one output: of scans, whose trusted run is plain; 1 otherwise."""
    if not given or "cum" in word:
        return 1
    if word == "convolution":
        return int(given[1][0].numel())
    if word in ("mm", "bmm", "addmm", "baddbmm"):
        return int(given[-2].shape[-1])
    if "softmax" in word:
        return int(given[0].shape[args[1]]) if given[0].dim() else 1
    if "attention" in word:
        return int(max(given[1].shape[-2:]))
    if not _ADDING.search(word):
        return 1
    numbers = [value.numel() for value in made if value.is_floating_point() and value.numel()]
    return int(given[0].numel() // min(numbers)) if numbers else 1


def fewer_by_values(first: Products, other: Products, results: Sequence[tuple[Any, Any]]) -> str:
    """Why a kernel may need fewer products than were counted, or ''. From two runs on unlike values.

    results: each output of both runs.
    """
    if any(map(_always_zero, first.zeros, other.zeros)):
        return "an operand of a product is 0 at fixed places"
    # A transposed convolution has zeros between its steps, which its count leaves out.
    counted = any(kind != TRANSPOSED for kind, _ in first.calls)
    if counted and any(_always_zero(a == 0, b == 0) for a, b in results):
        return "outputs are 0 at fixed places"
    return ""


def _always_zero(first: Any, other: Any) -> bool:
    return bool(first.shape == other.shape and first.float().mean() > _FEW_ZEROS and torch.equal(first, other))


def _tensors(values: Any) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += _tensors(value)
    return found
