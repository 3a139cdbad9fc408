"""The population: every trial's record, and the text of every variant from the chain of diffs. Knows no git."""

from __future__ import annotations

from evo.records.trials.commit_message import effect, kept_message
from evo.records.trials.first_looks import FirstLook, add_looks, looks_file, read_looks
from evo.records.trials.record import Kind, Record, arm_of, run_id, trial_id
from evo.records.trials.store import (
    RunFile,
    find,
    find_among,
    iterate,
    load_records,
    next_run,
    rebuild_parent_text,
    rebuild_rival_text,
    rebuild_text,
    run_file,
    torn_lines,
)
from evo.records.trials.unified_diff import DiffMismatch, apply_diff, make_diff

__all__ = [
    "DiffMismatch", "FirstLook", "Kind", "Record", "RunFile", "add_looks", "apply_diff", "arm_of", "effect", "find",
    "find_among", "iterate", "kept_message", "load_records", "looks_file", "make_diff", "next_run", "read_looks",
    "rebuild_parent_text", "rebuild_rival_text", "rebuild_text", "run_file", "run_id",
    "torn_lines", "trial_id",
]  # fmt: skip
