"""What devices that run every block of a grid, and hand out all of its outputs, have in common."""

from __future__ import annotations

from evo.device import ExtremesRequest, OutputExtremes, RunRequest
from evo.device.output_extremes import reduced
from evo.device.protocol import Device


def whole_grid_extremes(device: Device, request: ExtremesRequest) -> OutputExtremes:
    """`Device.output_extremes` from one run of all blocks."""
    program = request.case.program
    ran = device.run(RunRequest(program=program, inputs=request.case.inputs))
    if ran.faults:
        return OutputExtremes(whole=True, fault=ran.faults[0])
    dtypes = {output.name: output.dtype for output in program.outputs}
    extremes, place = reduced(ran.outputs[0], dtypes, dict.fromkeys(dtypes), request.groups, request.find)
    return OutputExtremes(whole=True, extremes=extremes, place=place)
