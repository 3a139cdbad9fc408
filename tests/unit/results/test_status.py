"""The statuses that follow from faults, and how faults are written."""

from __future__ import annotations

import pickle

import pytest

from evo.results import Fault, FaultKind, Status
from evo.sim.faults import SimFault

NOT_UNSAFE = {
    FaultKind.BUDGET: Status.TIMED_OUT,
    FaultKind.TRAP: Status.CRASHED,
    FaultKind.LAUNCH: Status.REFUSED,
    FaultKind.UNSUPPORTED: Status.REFUSED,
}


@pytest.mark.parametrize("kind", FaultKind)
def test_a_kind_of_fault_decides_the_status(kind: FaultKind) -> None:
    assert kind.status is NOT_UNSAFE.get(kind, Status.UNSAFE)
    fault = Fault(kind=kind, kernel="k", message="what")
    assert fault.to_json() == {"kind": kind.value, "kernel": "k", "message": "what"}
    assert FaultKind(kind.value) is kind
    assert pickle.loads(pickle.dumps(fault)) == fault


def test_a_word_that_is_no_kind_of_fault_is_refused() -> None:
    with pytest.raises(ValueError, match="sticky"):
        FaultKind("sticky")


def test_numbers_of_simulated_faults_differ() -> None:
    assert len({fault.number for fault in SimFault}) == len(SimFault)
