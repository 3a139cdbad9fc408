"""The population: every trial's record, and the text of every variant from the chain of diffs. Knows no git."""

from __future__ import annotations

from evo.population.diff import DiffMismatch, apply_diff, make_diff, text_hash
from evo.population.message import effect, kept_message
from evo.population.record import Record, run_id, trial_id
from evo.population.store import (
    RunFile,
    find,
    find_among,
    iterate,
    load_records,
    read_run,
    rebuild_parent_text,
    rebuild_rival_text,
    rebuild_text,
    run_file,
)

__all__ = [
    "DiffMismatch",
    "Record",
    "RunFile",
    "apply_diff",
    "effect",
    "find",
    "find_among",
    "iterate",
    "kept_message",
    "load_records",
    "make_diff",
    "read_run",
    "rebuild_parent_text",
    "rebuild_rival_text",
    "rebuild_text",
    "run_file",
    "run_id",
    "text_hash",
    "trial_id",
]
