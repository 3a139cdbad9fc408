"""Which launches of a program belong together: the steps of one job, rather than its versions or its repetitions."""

from __future__ import annotations

from collections.abc import Sequence

from evo.interop.adopt.host import Host
from evo.interop.adopt.host_values import Allocation, DevicePointer, HostEvent, Launched
from evo.interop.adopt.parameters import parameters_of
from evo.interop.adopt.pointer_accesses import PointerAccess, accesses_of


def matching(host: Host, kernel: str | None) -> list[list[HostEvent]]:
    """The sequences that launch a kernel; without a name, all."""
    found = _sequences(host)
    return [s for s in found if kernel is None or any(e.launched and e.launched.kernel == kernel for e in s)]


def _sequences(host: Host) -> list[list[HostEvent]]:
    """Launches that belong together: what is copied back ends a sequence, and so does a launch that does it again."""
    events = host.events
    found: list[list[HostEvent]] = []
    current: list[HostEvent] = []
    for event in events:
        if event.kind == "launch":
            if current and _is_repeated(current, event):
                continue  # a warm-up, or the same once more under a timer
            if current and _is_other_version(host, current, event):
                found.append(current)
                current = []
            current.append(event)
        elif event.kind == "out" and current:
            following = [e for e in events[events.index(event) :] if e.kind == "launch"]
            if not following or not _goes_on(current, following[0], events):
                found.append(current)
                current = []
        elif event.kind in ("zero", "in") and current and _is_over(current, event):
            found.append(current)
            current = []
    return [*found, current] if current else found


def _is_repeated(current: Sequence[HostEvent], event: HostEvent) -> bool:
    last = current[-1].launched
    return last is not None and event.launched is not None and last.looks_like(event.launched)


def _is_over(current: Sequence[HostEvent], event: HostEvent) -> bool:
    """Whether memory is set again that launches before have used: then the next ones begin anew."""
    return any(event.memory is memory for each in current for memory in _memories(each))


def _is_other_version(host: Host, current: Sequence[HostEvent], event: HostEvent) -> bool:
    """The same memory in another kernel of the same job, as courses compare them: naive, tiled, unrolled.

    What writes something else goes on with the job: norms of columns, then columns over their norms."""
    assert event.launched is not None
    last = current[-1].launched
    assert last is not None
    same = _memories(current[-1]) == _memories(event)
    is_other = last.kernel != event.launched.kernel and len(current) == 1 and not event.is_step
    if not same or len(_memories(event)) < 2 or not is_other:
        return False
    first, second = (_written(host, each) for each in (last, event.launched))
    return first == second or not first or not second


def _written(host: Host, launched: Launched) -> set[Allocation]:
    """What a launch writes, as far as the kernel's own text shows it."""
    kernel = host.kernels[launched.kernel]
    touches = accesses_of(kernel.text, launched.kernel)
    pairs = zip(parameters_of(kernel), launched.passed, strict=False)
    return {v.memory for p, v in pairs if isinstance(v, DevicePointer) and touches.get(p.name, PointerAccess()).written}


def _goes_on(current: Sequence[HostEvent], event: HostEvent, events: Sequence[HostEvent]) -> bool:
    """Whether a launch behind a copy to the host needs what launches before it made, and makes something else."""
    ours = {memory for each in current for memory in _memories(each)}
    theirs = set(_memories(event))
    new = theirs - ours
    return bool(theirs & ours) and bool(new) and any(e.kind == "out" and e.memory in new for e in events)


def _memories(event: HostEvent) -> list[Allocation]:
    launched = event.launched
    return [a.memory for a in launched.arguments if isinstance(a, DevicePointer)] if launched is not None else []
