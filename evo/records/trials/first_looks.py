"""First looks at edits, by which a run chooses its trials: `population/<task>/looks/<run>.jsonl`, a line for each.

They are no verdicts: nothing is decided from what is read here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from evo.errors import RecordCorrupt
from evo.files import append, split_tail
from evo.results.codec import Seconds, Serializable, parse
from evo.results.decision import Ratio

VERSION: Final = 1
_HINT = "remove the file: trials are chosen anew without it"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstLook(Serializable):
    """A first look at an edit: compiled, run at one case or two, and timed there."""

    version: Literal[1] = VERSION  # of this format
    parent: str  # the variant that it changes
    variant: str  # the id of the text that was looked at
    operator: str  # what proposed it
    summary: str  # what it changes, in a line
    ratio: Ratio | None = None  # how much faster than its parent; absent if it failed, or cannot be kept
    elapsed_s: Seconds  # its share of the time that the looks of its round took

    @property
    def lost(self) -> bool:
        """Whether it has ended the edit: it came to no time, or is no faster than its parent."""
        return self.ratio is None or self.ratio <= 1


def looks_file(root: Path, task: str, run: str) -> Path:
    """Where the first looks of one run are."""
    return root / "population" / task / "looks" / f"{run}.jsonl"


def add_looks(path: Path, looks: Iterable[FirstLook]) -> None:
    """Write them down. Raises HarnessFault, with the file as it was, if that fails."""
    if lines := [json.dumps(look.to_json(), ensure_ascii=True) + "\n" for look in looks]:
        append(path, "".join(lines).encode("ascii"))


def read_looks(path: Path) -> list[FirstLook]:
    """The first looks of one run; of several at one edit of a parent, the first. Raises RecordCorrupt.

    A torn last line is left out.
    """
    if not path.exists():
        return []
    whole, _ = split_tail(path.read_bytes())
    found: dict[tuple[str, str], FirstLook] = {}
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            look = FirstLook.from_json(parse(line))
        except (ValueError, RecursionError) as error:
            raise RecordCorrupt(f"{path}:{number}: {error}", hint=_HINT) from None
        found.setdefault((look.parent, look.variant), look)
    return list(found.values())
