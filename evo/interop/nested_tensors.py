"""The tensors inside the lists, tuples and dicts that forward takes and returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch


def flattened(result: Any) -> list[Any]:
    """The tensors in a value, in order; other leaves are left out."""
    return [leaf for _, leaf in leaves_of(result) if isinstance(leaf, torch.Tensor)]


def named_leaves(values: Sequence[Any], names: Sequence[str] = ()) -> list[tuple[str, Any]]:
    """The leaves of several values with their names; those that have none are x0, x1, ..."""
    words = [names[i] if i < len(names) else f"x{i}" for i in range(len(values))]
    return [leaf for name, value in zip(words, values, strict=True) for leaf in leaves_of(value, name)]


def leaves_of(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Each tensor with its name (`x_0` of a list x, `x_key` of a dict); a value without tensors is one leaf."""
    if not holds_tensors(value):
        yield name, value
        return
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield from leaves_of(inner, f"{name}_{key}")


def refilled(value: Any, leaves: Iterator[Any]) -> Any:
    """The same structure with other leaves, in the order of `leaves_of`."""
    if not holds_tensors(value):
        return next(leaves)
    if isinstance(value, dict):
        return {key: refilled(inner, leaves) for key, inner in value.items()}
    parts = [refilled(inner, leaves) for inner in value]
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


def holds_tensors(value: Any) -> bool:
    """Whether it is a list, tuple or dict with a tensor somewhere inside."""
    if isinstance(value, dict):
        return any(isinstance(inner, torch.Tensor) or holds_tensors(inner) for inner in value.values())
    return isinstance(value, list | tuple) and any(isinstance(i, torch.Tensor) or holds_tensors(i) for i in value)
