"""Operators: each turns a parent into a proposal of exactly one change.

`operators("ladder,rules".split(","))` gives the operators to ask; `operator_docs()` is the text of `evo operators`.
"""

from __future__ import annotations

from evo.operators.ladder import Ladder, first_rung, other_start
from evo.operators.one_change import clutter, edit_key, kind_of_edit, not_one_change, parts, rung_of
from evo.operators.patch import Hypothesis, Patch
from evo.operators.proposal import Context, Operator, OperatorDoc, Proposal, start_proposal
from evo.operators.rebase import carried
from evo.operators.registry import WHEN_STALLED, is_closed, operator_docs, operators
from evo.operators.rules import RULES, Rule, all_rules
from evo.operators.tile_config import INVERT_BELOW, STALLED_AFTER, TileConfigOperator

__all__ = [
    "INVERT_BELOW", "RULES", "STALLED_AFTER", "WHEN_STALLED", "Context", "Hypothesis", "Ladder", "Operator",
    "OperatorDoc", "Patch", "Proposal", "Rule", "TileConfigOperator", "all_rules", "carried", "clutter", "edit_key",
    "first_rung", "is_closed", "kind_of_edit", "not_one_change", "operator_docs", "operators", "other_start", "parts",
    "rung_of", "start_proposal",
]  # fmt: skip
