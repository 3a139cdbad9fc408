"""Command lines for the help texts and the pages of the commands, as `examples.toml` beside this module has them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files

# Command -> pairs of (command line, purpose).
EXAMPLES: Mapping[str, tuple[tuple[str, str], ...]] = {
    command: tuple(rows.items())
    for command, rows in tomllib.loads(files(__package__).joinpath("examples.toml").read_text("utf-8")).items()
}
