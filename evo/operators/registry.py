"""The operators by name: the built-in ones, one for each family of rules, and those of plug-ins.

A new operator is a row of `_built_in`, or an entry point of the group `evo.operators` in a package of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evo.errors import UsageError, known_words
from evo.operators import ladder, patch, tile_config
from evo.operators.patch import Hypothesis
from evo.operators.proposal import Operator, OperatorDoc
from evo.operators.rules import RuleOperator, all_rules, rule_operators
from evo.operators.rules.plans import PlanOperator
from evo.spec.plugins import plugins

WHEN_STALLED = "derive.stalled"  # as `derive`, but only if the search stalls far from its target
_RULES = "rules"  # all families of rules

_LLM = OperatorDoc(
    name="llm",
    family="llm",
    sentence="Asks a language model for one small edit, told by --strategy what to show it: the task (free), measured"
    " insights (insight), past solutions and elites to cross with (full), limits and counters (inversion, hybrid).",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorInputs:
    """The inputs of some operators. patch: the file of `--patch`. llm: the operator that asks a language model."""

    patch: Path | None = None
    llm: Operator | None = None
    hypothesis: Hypothesis | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorEntry:
    """An operator by its name. make raises UsageError if the run lacks what it needs.

    docs: its rows of `evo operators`, for a family one per rule. closed: all its texts follow from the repository and
    the seed, so that a run can be drawn again.
    """

    make: Callable[[OperatorInputs], Operator]
    docs: tuple[OperatorDoc, ...] = ()
    closed: bool = False


def _patch(inputs: OperatorInputs) -> Operator:
    if inputs.patch is None:
        raise UsageError("operator patch needs a file", hint="pass --patch FILE")
    return patch.Patch(inputs.patch, inputs.hypothesis)


def _llm(inputs: OperatorInputs) -> Operator:
    if inputs.llm is None:
        raise UsageError("operator llm needs a language model", hint="pass --llm-url and --llm-model")
    return inputs.llm


def entries() -> dict[str, OperatorEntry]:
    """Every operator by name, in the order of `evo operators`. Raises UsageError for a plug-in that does not fit."""
    found = _built_in()
    for name, loaded in plugins("evo.operators").items():
        if name in found or name == _RULES:
            raise UsageError(f"a plug-in adds operator {name!r}, which exists already", hint="rename its entry point")
        found[name] = _of_plugin(name, loaded)
    return found


def _built_in() -> dict[str, OperatorEntry]:
    derived = tile_config.TileConfigOperator
    return {
        "ladder": OperatorEntry(make=lambda _: ladder.Ladder(), docs=(ladder.DOC,), closed=True),
        "derive": OperatorEntry(make=lambda _: derived(), docs=(tile_config.DOC,), closed=True),
        WHEN_STALLED: OperatorEntry(make=lambda _: derived(patient=True), closed=True),
        **{each.name: _of_rules(each) for each in rule_operators()},
        PlanOperator.name: _of_plans(),
        "llm": OperatorEntry(make=_llm, docs=(_LLM,)),
        "patch": OperatorEntry(make=_patch, docs=(patch.DOC,)),
    }


def _of_rules(operator: RuleOperator) -> OperatorEntry:
    docs = (
        OperatorDoc(
            name=f"{operator.name}/{rule.name}",
            family=rule.family,
            sentence=rule.sentence,
            before=rule.examples[0].before,
            after=rule.examples[0].after,
        )
        for rule in operator.rules
    )
    return OperatorEntry(make=lambda _: operator, docs=tuple(docs), closed=True)


def _of_plans() -> OperatorEntry:
    operator = PlanOperator(all_rules())
    return OperatorEntry(make=lambda _: operator, docs=operator.docs, closed=True)


def _of_plugin(name: str, loaded: object) -> OperatorEntry:
    """A class, or a function without arguments, that gives an operator of the entry point's name."""
    if not callable(loaded):
        raise UsageError(f"operator {name!r} of a plug-in is not a class", hint="see docs/plugins.md")
    sentence = " ".join((loaded.__doc__ or "").strip().split("\n\n")[0].split())

    def make(_: OperatorInputs) -> Operator:
        made: Operator = loaded()
        if made.name != name:
            raise UsageError(
                f"a plug-in adds operator {name!r}, whose own name is {made.name!r}",
                hint="give the entry point the operator's own name",
            )
        return made

    return OperatorEntry(make=make, docs=(OperatorDoc(name=name, family=name, sentence=sentence),))


def operators(
    names: Sequence[str],
    *,
    patch: Path | None = None,
    llm: Operator | None = None,
    hypothesis: Hypothesis | None = None,
) -> tuple[Operator, ...]:
    """The operators behind `--operators`: names of `entries`, or `rules` for all families of rules.

    Raises UsageError for an unknown name, for `patch` without a file, or `llm` without a language model.
    """
    known, inputs = entries(), OperatorInputs(patch=patch, llm=llm, hypothesis=hypothesis)
    chosen: dict[str, Operator] = {}
    for name in names:
        if name != _RULES and name not in known:
            shown = [each for each in known if each != WHEN_STALLED]
            raise UsageError(f"unknown operator {name!r}", hint=known_words("operators", name, (_RULES, *shown)))
        for each in known if name == _RULES else (name,):
            if name != _RULES or each.startswith(f"{_RULES}."):
                made = known[each].make(inputs)
                chosen[made.name] = made
    return tuple(chosen.values())


def is_closed(names: Sequence[str]) -> bool:
    """Whether every text that these operators propose follows from the repository and the seed."""
    known = entries()
    return all(name == _RULES or (name in known and known[name].closed) for name in names)


def operator_docs() -> tuple[OperatorDoc, ...]:
    """One row for each operator and each rule: name, family, sentence, and the first example of a rule."""
    return tuple(doc for entry in entries().values() for doc in entry.docs)
