"""Where changes come from: operators that turn a parent into a proposal, exactly one change at a time.

`operators("ladder,rules".split(","))` gives the operators to ask; `operator_docs()` is the text of `evo operators`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evo.errors import UsageError
from evo.operators import ladder as _ladder
from evo.operators import patch as _patch
from evo.operators import tile_config as _derived
from evo.operators.ladder import Ladder, first_rung
from evo.operators.one_change import edit_key, not_one_change, parts, rung_of
from evo.operators.patch import Patch
from evo.operators.proposal import KINDS, Context, Operator, OperatorDoc, Proposal, start_proposal
from evo.operators.rebase import carried
from evo.operators.rules import RULES, Rule, rule_operators
from evo.operators.tile_config import INVERT_BELOW, STALLED_AFTER, Derived

__all__ = [
    "INVERT_BELOW",
    "KINDS",
    "RULES",
    "STALLED_AFTER",
    "WHEN_STALLED",
    "Context",
    "Derived",
    "Ladder",
    "Operator",
    "OperatorDoc",
    "Patch",
    "Proposal",
    "Rule",
    "carried",
    "edit_key",
    "first_rung",
    "not_one_change",
    "operator_docs",
    "operators",
    "parts",
    "rung_of",
    "start_proposal",
]

WHEN_STALLED = "derive.stalled"  # as `derive`, but only where the search has stalled far from its target

_LLM = OperatorDoc(
    name="llm",
    family="llm",
    sentence="Asks a language model for one small edit, told by --strategy what to show it: the task (free), measured"
    " insights (insight), past solutions and elites to cross with (full), limits and counters (inversion, hybrid).",
)


def operators(names: Sequence[str], *, patch: Path | None = None, llm: Operator | None = None) -> tuple[Operator, ...]:
    """The operators behind `--operators`: `ladder`, `derive`, `rules` (all), `rules.FAMILY`, `llm`, `patch`.

    Raises UsageError for an unknown name, for `patch` without a file, or `llm` without a language model.
    """
    families = {operator.name: operator for operator in rule_operators()}
    chosen: dict[str, Operator] = {}
    for name in names:
        if name == "ladder":
            chosen[name] = Ladder()
        elif name in ("derive", WHEN_STALLED):
            chosen["derive"] = Derived(patient=name != "derive")
        elif name == "rules":
            chosen.update(families)
        elif name in families:
            chosen[name] = families[name]
        elif name == "patch" and patch is not None:
            chosen[name] = Patch(patch)
        elif name == "llm" and llm is not None:
            chosen[name] = llm
        elif name == "llm":
            raise UsageError("operator llm needs a language model", hint="pass --llm-url and --llm-model")
        elif name == "patch":
            raise UsageError("operator patch needs a file", hint="pass --patch FILE")
        else:
            known = ", ".join(["ladder", "derive", "rules", *families, "llm", "patch"])
            raise UsageError(f"no operator {name!r}", hint=f"known operators: {known}")
    return tuple(chosen.values())


def operator_docs() -> tuple[OperatorDoc, ...]:
    """One row per operator and rule: name, family, sentence, and the first example of a rule."""
    rules = (
        OperatorDoc(
            name=f"rules.{rule.family}/{rule.name}",
            family=rule.family,
            sentence=rule.sentence,
            before=rule.examples[0].before,
            after=rule.examples[0].after,
        )
        for rule in RULES
    )
    return (_ladder.DOC, _derived.DOC, *rules, _LLM, _patch.DOC)
