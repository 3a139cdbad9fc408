"""Which JSON is an evaluation: the shape of `Evaluation.to_json()`, checked field by field when a record is read."""

from __future__ import annotations

import math
from collections.abc import Mapping

from evo.results import Json, Status, Verdict

_FIELDS: dict[str, type] = {
    "variant": str,
    "status": str,
    "reason": str,
    "environment": dict,
    "check": dict,
    "bench": list,
    "decision": dict,
    "compile": dict,
    "elapsed_s": float,
    "control": dict,
    "clocks": dict,
    "stages_s": dict,
}
_ENVIRONMENT = ("device", "chip", "arch", "loaded", "toolkit", "harness", "task_hash")
_LOADED = ("cubin", "ptx_jit", "sim")
_PERCENTILES = ("p50_us", "p90_us", "p99_us", "samples")


def evaluation_problem(evaluation: Mapping[str, object]) -> str | None:
    """None, or what is wrong, beginning with the rest of the field's path: ".status`: ..." """
    for name, value in evaluation.items():
        if name not in _FIELDS:
            return f".{name}`: unknown field"
        if not (is_number(value) if _FIELDS[name] is float else isinstance(value, _FIELDS[name])):
            return f".{name}`: ill-typed: {str(value)[:40]!r}"
    if evaluation.get("status") not in set(Status):
        return f".status`: {evaluation.get('status')!r} is not a status"
    return (
        _environment_problem(evaluation.get("environment"))
        or _bench_problem(evaluation)
        or _decision_problem(evaluation.get("decision"))
    )


def is_number(value: object) -> bool:
    """A finite int or float; a bool is not a number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _environment_problem(environment: object) -> str | None:
    if not isinstance(environment, dict):
        return ".environment`: missing"
    for name in _ENVIRONMENT:
        if not isinstance(environment.get(name), str):
            return f".environment.{name}`: not a text"
    if environment["loaded"] not in _LOADED:
        return f".environment.loaded`: {environment['loaded']!r} is not one of {', '.join(_LOADED)}"
    return None


def _bench_problem(evaluation: Mapping[str, object]) -> str | None:
    cases = evaluation.get("bench", [])
    assert isinstance(cases, list)
    environment = evaluation["environment"]
    assert isinstance(environment, dict)
    if cases and not Status(str(evaluation["status"])).passed:
        return f".bench`: a variant that is {evaluation['status']} carries no bench figures"
    for number, case in enumerate(cases):
        if problem := case_problem(case, modelled=environment["loaded"] == "sim"):
            return f".bench[{number}]`: {problem}"
    return None


def case_problem(case: object, *, modelled: bool) -> str | None:
    """What is wrong with one bench case: it is measured or modelled, as its place says, and never both."""
    if not isinstance(case, dict) or not isinstance(case.get("name"), str):
        return "a case without a name"
    if modelled:
        if "warm" in case or "cold" in case or "p50_us" in case:
            return "measured times where nothing was measured"
        if not is_number(case.get("modelled_us")) or not isinstance(case.get("model_version"), str):
            return "no modelled_us or model_version"
        return None
    if "modelled_us" in case:
        return "a modelled time among measured ones"
    warm = case.get("warm")
    if not isinstance(warm, dict) or not all(is_number(warm.get(name)) for name in _PERCENTILES):
        return "no warm p50_us, p90_us, p99_us and samples"
    return None


def _decision_problem(decision: Json | object) -> str | None:
    if decision is None:
        return None
    assert isinstance(decision, dict)
    if decision.get("verdict") not in set(Verdict) or not isinstance(decision.get("reason"), str):
        return f".decision`: no verdict with a reason: {str(decision)[:40]!r}"
    gain = decision.get("gain")
    if gain is not None and not (isinstance(gain, dict) and is_number(gain.get("ratio"))):
        return ".decision.gain`: no ratio"
    return None
