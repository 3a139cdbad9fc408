"""Plug-ins: entry points of installed packages (docs/plugins.md).

Groups: `evo.operators`, `evo.rules`, `evo.devices`, `evo.importers`.
"""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points

from evo.errors import UsageError


@functools.cache
def plugins(group: str) -> dict[str, object]:
    """The objects of a group by the names of their entry points, sorted. Raises UsageError if one cannot be loaded."""
    return {point.name: _loaded(point) for point in sorted(entry_points(group=group), key=lambda point: point.name)}


def _loaded(point: EntryPoint) -> object:
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        package = point.dist.name if point.dist is not None else "an installed package"
        raise UsageError(
            f"{package} adds {point.name} to {point.group}, but {point.value} cannot be loaded: {error}",
            hint=f"repair its entry point, or pip uninstall {package}",
        ) from None
