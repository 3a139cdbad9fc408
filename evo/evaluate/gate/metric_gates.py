"""The bounds on metrics that a task sets for its variants: held to the compile report and to exact counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from evo.device import LaunchCounters, Program, RunRequest
from evo.device.remote_device import RemoteSimulator
from evo.errors import Crashed, TimedOut
from evo.spec.metric_bounds import MetricGate
from evo.spec.metrics import METRICS, STATIC, added, counted_metrics, lost_ways, short
from evo.spec.reference import Reference
from evo.spec.task import Task

_LIMIT_S = 120.0


def metric_problem(
    task: Task, programs: Mapping[str, Program], reference: Reference, checker: RemoteSimulator, seed: int
) -> str | None:
    """Why a correct variant is refused: the first bound that does not hold, with its values; None if all hold.

    Static metrics are those of the worst binary. Counted ones are counted on the simulator, on a GPU too.
    """
    static = static_metrics(programs.values())
    counted: dict[str, tuple[LaunchCounters, ...]] = {}
    for gate in task.gates:
        if gate.counted and gate.case not in counted:
            found = _count(task, programs[gate.case], reference, checker, seed, gate.case)
            if isinstance(found, str):
                return f"gate {gate.name}: {found}"
            counted[gate.case] = found
        if reason := _problem(task, gate, static, counted.get(gate.case, ())):
            return reason
    return None


def static_metrics(programs: Iterable[Program]) -> dict[str, float]:
    """The static metrics, each of the launch with most."""
    worst: dict[str, float] = {}
    for program in programs:
        reports = {report.name: report for report in program.binary.kernels}
        for bound in program.launches:
            report = reports[bound.launch.kernel]
            values = {
                "registers": report.registers,
                "spill_bytes": report.spill_store_bytes + report.spill_load_bytes,
                "local_bytes": report.stack_bytes,
                "shared_bytes": report.shared_bytes + bound.launch.shared_bytes,
            }
            for name, value in values.items():
                worst[name] = max(worst.get(name, 0), value)
    return worst


def _count(
    task: Task, program: Program, reference: Reference, checker: RemoteSimulator, seed: int, case: str
) -> tuple[LaunchCounters, ...] | str:
    inputs = reference.inputs(task.case(case), seed)
    try:
        request = RunRequest(program=program, inputs=inputs, check_races=False, lines=True)
        result = checker.run(request, time_limit_s=_LIMIT_S)
    except (TimedOut, Crashed) as failure:
        return f"nothing was counted at case {case}: {failure}"
    if result.faults:
        return f"nothing was counted at case {case}: {result.faults[0].message}"
    return result.launches


def _problem(
    task: Task, gate: MetricGate, static: Mapping[str, float], launches: tuple[LaunchCounters, ...]
) -> str | None:
    counted = counted_metrics(added(launch.totals for launch in launches)) if gate.counted else {}
    case = task.case(gate.case)
    values = {**static, **counted, **task.work_of(case), **case.axes}
    names = gate.bound.names
    if any(name in METRICS and name not in values for name in names):
        return None  # a ratio of nothing: no access of that kind was made
    if gate.bound.value(values):
        return None
    shown = ", ".join(f"{name} is {short(values[name])}" for name in sorted(names, key=lambda n: (n not in METRICS, n)))
    reason = f"gate {gate.name}: `{gate.bound.text}` does not hold: {shown}"
    if not gate.counted:
        return f"{reason} (compile report)"
    metrics = sorted(name for name in names if name in METRICS and METRICS[name].kind != STATIC)
    hottest = next(filter(None, (_hottest(metric, launches) for metric in metrics)), "")
    return f"{reason} (counted on the simulator at case {gate.case}){hottest}"


def _hottest(metric: str, launches: tuple[LaunchCounters, ...]) -> str:
    """Where in the source most of it is."""
    rows: dict[int, dict[str, int]] = {}
    for launch in launches:
        for line, row in launch.by_line.items():
            rows[line] = added((rows.get(line, {}), row))
    values = {line: counted_metrics(row).get(metric) for line, row in rows.items() if line}
    known = {line: value for line, value in values.items() if value is not None}
    if not known:
        return ""
    pick = min if METRICS[metric].best == "high" else max
    line = pick(known, key=lambda number: (known[number], -number))
    if not known[line]:
        return ""
    ways = lost_ways(rows[line]) if metric in ("bank_conflicts", "conflict_ways") else None
    detail = f", {ways} lost" if ways else ""
    return f"; hottest: line {line} with {short(known[line])}{detail}"
