"""Which model is asked, what it is asked to aim at, and what a summary says: without a server."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ledger_samples import record, text_of

from evo.operators.llm.cost import Price, Usage
from evo.operators.llm.model_bandit import ModelBandit
from evo.operators.llm.prompt_context import trial_summary
from evo.records.trials import Record
from evo.results import Verdict

COST = Usage(calls=1, prompt_tokens=1000, completion_tokens=100)


def asked(bandit: ModelBandit, times: int, usage: dict[str, Usage], kept: list[Record]) -> Counter[str]:
    found: Counter[str] = Counter()
    for _ in range(times):
        bandit.recall(kept)
        name = bandit.choose()
        bandit.used(name, usage[name])
        found[name] += 1
    return found


def gain(model: str, ratio: float, verdict: Verdict = Verdict.KEEP) -> Record:
    trial = record(2, parent=text_of(1), ratio=ratio, verdict=verdict, operator="llm")
    return replace(trial, arguments={"model": model})


def test_models_that_bring_nothing_are_asked_alike_and_the_first_named_first() -> None:
    bandit = ModelBandit(("a", "b"), in_money=False)
    assert bandit.choose() == "a"
    assert bandit.choose() == "b"
    assert asked(bandit, 20, {"a": COST, "b": COST}, []) == {"a": 10, "b": 10}


def test_the_model_with_more_gain_per_cost_is_asked_more() -> None:
    same = {"a": COST, "b": COST}
    found = asked(ModelBandit(("a", "b"), in_money=False), 40, same, [gain("b", 1.5)])
    assert found["b"] > found["a"] > 0
    reverted = asked(ModelBandit(("a", "b"), in_money=False), 40, same, [gain("b", 1.5, Verdict.REVERT)])
    assert reverted == {"a": 20, "b": 20}
    dear = {"a": COST.at(Price(1, 1)), "b": COST.at(Price(50, 50))}
    found = asked(ModelBandit(("a", "b"), in_money=True), 40, dear, [gain("a", 1.5), gain("b", 1.5)])
    assert found["a"] > found["b"] > 0


def test_a_summary_is_made_every_n_trials() -> None:
    trials = [record(1, parent=None), gain("m", 1.2)]
    trials += [record(n, parent=text_of(2), verdict=Verdict.REVERT, ratio=0.9) for n in (3, 4)]
    trials[2] = replace(trials[2], arguments={"aim": "memory"})
    run = trials[0].run
    assert trial_summary(trials, run, 4) == []
    assert trial_summary(trials, run, 0) == []
    assert trial_summary(trials, "another", 1) == []
    text = "\n".join(trial_summary(trials, run, 3))
    assert "3 trials, 1 kept, together 1.20x" in text
    assert "aim memory: 0 of 1 kept" in text
    assert text == "\n".join(trial_summary([*trials, record(5, parent=text_of(2))], run, 3))
