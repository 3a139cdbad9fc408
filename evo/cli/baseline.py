"""`evo baseline`: the times of the library's backends, one by one; the fastest correct one is the baseline."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from evo.cli.chips import CaseWord, choose_cases
from evo.cli.command_context import choose_task, session_of
from evo.cli.options import AsJson, DeviceWord, Seed, TaskName
from evo.cli.stage_line import stage
from evo.cli.terminal import microseconds, out, out_json, out_table, paint, plain, say
from evo.errors import DeviceMissing, HarnessFault

if TYPE_CHECKING:
    from evo.evaluate.library_baselines import CaseBaseline, Rival


def baseline(
    context: typer.Context,
    task: TaskName = None,
    device: DeviceWord = "gpu:0",
    case: CaseWord = None,
    seed: Seed = 0,
    json: AsJson = False,
) -> int:
    """Measure the library's backends one by one: warm, cold and eager time, and error. Marks the one to beat."""
    from evo.analysis.calibration import keep_baseline
    from evo.device import gpu_present, parse_device
    from evo.device.remote_device import RemoteGpu
    from evo.evaluate.library_baselines import baseline as measured
    from evo.spec.reference import load_reference

    subject = choose_task(session_of(context).root(), task)
    cases = choose_cases(subject, case)
    name = parse_device(device)
    if name.kind != "gpu":
        raise DeviceMissing(
            f"rivals are library calls and need a GPU; {name} runs kernels only",
            hint="run this on a machine with an NVIDIA GPU: evo baseline TASK --device gpu:0",
        )
    if not gpu_present():
        raise DeviceMissing(
            f"no GPU {name.which} on this machine, and rivals are library calls that need one",
            hint="run `evo doctor` to see what is missing; `evo limits` shows floors without a GPU",
        )
    reference = load_reference(subject)
    found: list[CaseBaseline] = []
    with RemoteGpu(name) as gpu:
        about = gpu.describe()
        for one in cases:
            stage(f"rivals of {subject.name} at {one.name}")
            found.append(measured(gpu, reference, one, seed=seed))
        stage("")
    values = {one.name: one.kept() for one in found}
    try:
        keep_baseline(subject.name, about["chip"], about, values, datetime.now(UTC))
    except HarnessFault as problem:  # the figures are printed anyway; only `evo limits` will lack them
        say(f"not stored for `evo limits`: {problem.message}")
    if json:
        from evo.cli.analysis_outputs import BaselineOutput

        shown = BaselineOutput(task=subject.name, device=str(name), chip=about["chip"], about=about, cases=tuple(found))
        out_json(shown.to_json())
    else:
        show(subject.name, about, found)
    return 0


def show(task: str, about: dict[str, str], found: list[CaseBaseline]) -> None:
    """A row per case and backend; the one to beat is marked, a refusal has its reason."""
    out(f"{paint(task, 'bold')} on {about.get('gpu', about.get('chip', ''))}: measured library times, µs")
    out()
    rows = [_row(one, rival) for one in found for rival in one.rivals]
    head = ["case", "rival", ">warm p50", ">p90", ">cold p50", ">eager wall p50", ">max error", ">rms error", "verdict"]
    out_table(head, rows, flexible=8)


def _row(one: CaseBaseline, rival: Rival) -> list[str]:
    if rival.reason is not None:
        return [one.name, rival.name, "", "", "", "", "", "", f"refused: {plain(rival.reason)}"]
    verdict = paint("the one to beat", "green") if rival is one.to_beat else ""
    if rival.within_tolerance is False:
        verdict = paint("not within the task's tolerance", "red")
    return [
        one.name,
        rival.name,
        microseconds(rival.warm.p50_us) if rival.warm else "",
        microseconds(rival.warm.p90_us) if rival.warm else "",
        microseconds(rival.cold.p50_us) if rival.cold else "",
        microseconds(rival.eager.p50_us) if rival.eager else "",
        f"{rival.max_error:.2e}" if rival.max_error is not None else "",
        f"{rival.rms_error:.2e}" if rival.rms_error is not None else "",
        verdict,
    ]
