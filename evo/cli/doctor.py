"""`evo doctor`: what is installed, what is missing, and how to install it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Context, Option

from evo.cli.command_context import session_of
from evo.cli.llm_endpoint import EndpointOptions, gathered
from evo.cli.options import AsJson, DeviceWord
from evo.cli.terminal import out, out_json, paint
from evo.errors import UsageError

if TYPE_CHECKING:
    from evo.cli.doctor_checks import Finding

_COLOURS = {"ok": "green", "warn": "yellow", "missing": "red"}


@gathered("endpoint", EndpointOptions, timeout="1m", temperature=0.5)
def doctor(
    context: Context,
    calibrate: Annotated[
        bool, Option("--calibrate", help="Measure the GPU's rates instead, and store them for `evo limits`.")
    ] = False,
    quick: Annotated[bool, Option("--quick", help="With --calibrate: a quarter of the time.")] = False,
    llm: Annotated[
        bool, Option("--llm", help="Try the endpoint of a language model instead, by one tiny request.")
    ] = False,
    device: DeviceWord = "auto",
    json: AsJson = False,
    *,
    endpoint: EndpointOptions,
) -> int:
    """Show what is installed, what is missing and how to install it. Exit code 0 if the simulator works."""
    from evo.cli.doctor_checks import examine

    if llm:
        from evo.cli.doctor_llm import examine_endpoint

        return examine_endpoint(session_of(context), endpoint, json=json)
    if calibrate:
        from evo.cli.doctor_calibrate import calibrate as measure

        return measure(device, quick=quick, json=json)
    if quick or device != "auto":
        raise UsageError("--quick and --device need --calibrate", hint="add --calibrate")
    findings = examine(session_of(context))
    works = all(finding.state != "missing" for finding in findings if finding.needed)
    if json:
        from evo.cli.analysis_outputs import DoctorOutput

        gpu_works = _state(findings, "gpu launch") == "ok"
        shown = DoctorOutput(simulator_works=works, gpu_works=gpu_works, findings=tuple(findings))
        out_json(shown.to_json())
    else:
        _show(findings, works)
    return 0 if works else 5


def _state(findings: list[Finding], name: str) -> str | None:
    return next((finding.state for finding in findings if finding.name == name), None)


def _show(findings: list[Finding], works: bool) -> None:
    longest = max(len(finding.name) for finding in findings)
    for finding in findings:
        state = paint(f"{finding.state:<7}", _COLOURS[finding.state])
        out(f"{state}  {finding.name:<{longest}}  {finding.found}")
        if finding.to_do:
            out(f"{'':7}  {'':{longest}}  {paint('->', 'cyan')} {finding.to_do}")
    out()
    gpu = _state(findings, "gpu launch") == "ok"
    if works:
        also = "and so does the GPU" if gpu else "(--device sim:l4); its times are modelled"
        out(f"the simulator works {also}")
    else:
        out("the simulator does not work: see the rows marked missing")
