"""Source transforms with examples. A family is an arm of the bandit, and a file or folder of its name in `families`.

A rule is found because its module has a tuple RULES; a package of its own adds rules by the entry points `evo.rules`.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil

from evo.errors import UsageError
from evo.operators.rules import families
from evo.operators.rules.operator import RuleOperator
from evo.operators.rules.rule import Application, Example, Rule, RuleContext, example_variant
from evo.spec.plugins import plugins

__all__ = [
    "RULES", "Application", "Example", "Rule", "RuleContext", "RuleOperator", "all_rules", "example_variant",
    "rule_operators",
]  # fmt: skip


def _shipped() -> tuple[Rule, ...]:
    here = f"{families.__name__}."
    return tuple(
        rule.placed(module.name.removeprefix(here).split(".")[0])
        for module in pkgutil.walk_packages(families.__path__, here)
        for rule in getattr(importlib.import_module(module.name), "RULES", ())
    )


RULES = _shipped()


@functools.cache
def all_rules() -> tuple[Rule, ...]:
    """The shipped rules, then those of plug-ins. Raises UsageError for a plug-in that does not fit."""
    found = {rule.name: rule for rule in RULES}
    for point, loaded in plugins("evo.rules").items():
        for rule in loaded if isinstance(loaded, list | tuple) else (loaded,):
            if not isinstance(rule, Rule) or not rule.family:
                problem = f"plug-in {point!r} of evo.rules is not a rule of a family"
                raise UsageError(problem, hint="see docs/plugins.md")
            if rule.name in found:
                raise UsageError(f"plug-in {point!r} adds rule {rule.name!r}, which exists already", hint="rename it")
            found[rule.name] = rule
    return tuple(found.values())


def rule_operators() -> tuple[RuleOperator, ...]:
    """One operator per family, in the order of the rules."""
    found = dict.fromkeys(rule.family for rule in all_rules())
    return tuple(RuleOperator(family, tuple(r for r in all_rules() if r.family == family)) for family in found)
