"""What a warp waits for in machine code, of code written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from evo.sim.machine_runs import Executions
from evo.sim.machine_waits import CLOCKS, Accesses, MachineWork, StoreShape, machine_work
from evo.spec.machine_instruction import NO_SCOREBOARD, MachineInstruction

PLAIN = MachineInstruction(
    address=0,
    opcode="FFMA",
    guarded=False,
    stall=4,
    sets=NO_SCOREBOARD,
    frees=NO_SCOREBOARD,
    waits=0,
    target=None,
    line=1,
    helper=False,
)
LOAD: dict[str, Any] = {"opcode": "LDG", "stall": 1, "sets": 0, "line": 2}
USE: dict[str, Any] = {"waits": 1}
EXIT: dict[str, Any] = {"opcode": "EXIT", "line": 9}
NONE: dict[str, Any] = {"loads": {}, "stores": {}, "passes": {}, "shared": frozenset(), "pending": {}}


def work(
    *rows: dict[str, Any],
    executed: dict[int, float] | None = None,
    warps: int = 1,
    wide: tuple[int, ...] = (),
    **of_memory: Any,
) -> MachineWork:
    code = [PLAIN._replace(**{"address": 16 * at} | row) for at, row in enumerate(rows)]
    lines = executed or {row.get("line", 1): 1.0 for row in rows}
    counted = Executions(lines, {line: n for line, n in lines.items() if line >= 8}, 1.0, frozenset(wide))
    return machine_work(code, counted, Accesses(**NONE | of_memory), warps)


def test_a_load_that_is_used_at_once_is_waited_for_and_one_behind_other_work_is_not() -> None:
    at_once = work(LOAD, USE, EXIT)
    later = work(LOAD, *[{}] * 20, USE, EXIT)
    assert at_once.waits["l1"] == pytest.approx(1 - 1 / CLOCKS["l1"])
    assert "l1" not in later.waits
    assert later.waits["issue"] == at_once.waits["issue"] + 20 * 4


def test_loads_under_way_together_are_waited_for_once() -> None:
    second = LOAD | {"sets": 1}
    together = work(LOAD, second, USE, {"waits": 2}, EXIT)
    apart = work(LOAD, USE, second, {"waits": 2}, EXIT)
    assert together.waits["l1"] < 1.1
    assert apart.waits["l1"] > 1.8


def test_a_load_beyond_l1_waits_longer_by_its_share() -> None:
    found = work(LOAD, USE, EXIT, loads={2: {"l2": 0.5}}).waits
    assert found["l2"] == pytest.approx(0.5, rel=0.02)
    assert found["l1"] == pytest.approx(1, rel=0.02)


def test_a_loop_loads_ahead_for_its_next_turn() -> None:
    def loop(*body: dict[str, Any]) -> MachineWork:
        branch = {"opcode": "BRA", "guarded": True, "target": 0, "line": 8}
        return work(*body, branch, EXIT, executed={1: 10, 2: 10, 8: 10, 9: 1})

    ahead = loop(USE, LOAD, *[{}] * 20)
    at_once = loop(LOAD, USE, *[{}] * 20)
    assert ahead.waits.get("l1", 0) < 1
    assert at_once.waits["l1"] > 9
    assert ahead.issued == at_once.issued


@pytest.mark.parametrize("wide", [(), (5, 6)])
def test_two_instructions_of_a_64_bit_addition_are_no_unrolled_loop(wide: tuple[int, ...]) -> None:
    body = [{"line": 5}, {"line": 5}, {"line": 6}, {"line": 6}]
    code = [*body, {"opcode": "BRA", "guarded": True, "target": 0, "line": 8}, EXIT]
    found = work(*code, executed={5: 30, 6: 30, 8: 30, 9: 1}, wide=wide)
    assert found.issued["fma"] == (120 if wide else 60)


def test_turns_of_a_loop_that_ptxas_unrolled_are_shared_among_its_copies() -> None:
    body = {"line": 5}
    back = {"opcode": "BRA", "guarded": True, "line": 8}
    unrolled = [body, body, body, body, back | {"target": 0}]
    rest = [body, back | {"target": 80}]
    found = work(*unrolled, *rest, EXIT, executed={5: 30, 8: 30, 9: 1})
    assert found.issued["fma"] == 30


def copies_that_may_leave(count: int, last_target: int) -> list[dict[str, Any]]:
    """Of a loop unrolled, each copy with a branch out of it; the last one goes to an address."""
    out = 16 * (3 * count + 1)
    rows = [{"line": 5}, {"line": 6}, {"opcode": "BRA", "guarded": True, "target": out, "line": 7}] * count
    return [{}, *rows[:-1], rows[-1] | {"target": last_target}, EXIT]


@pytest.mark.parametrize("back", [False, True], ids=["unrolled wholly", "in part"])
def test_copies_of_a_loop_that_each_may_leave_share_what_was_executed(back: bool) -> None:
    turns = 10.0 if back else 2.4
    rows = copies_that_may_leave(4, 16 if back else 16 * 13)
    found = work(*rows, executed={1: 1, 5: turns, 6: turns, 7: turns, 9: 1})
    assert found.issued["fma"] == pytest.approx(1 + 2 * turns)
    assert found.issued["control"] == pytest.approx(1 + turns)


def test_slow_paths_of_divisions_are_not_executed() -> None:
    skip = {"opcode": "BRA", "guarded": True, "target": 48, "line": 4}
    call = {"opcode": "CALL", "target": 80, "line": 4}
    found = work({"line": 4}, skip, call, {"line": 4}, EXIT, {"line": 4, "helper": True}, executed={4: 1, 9: 1})
    assert found.issued["fma"] == 2
    assert found.issued["control"] == 2  # the branch and the end


def arms(taken: int, other: int) -> dict[str, float]:
    """What is issued of two arms of a condition without accesses: sums in lines 2 and 3, so often executed each."""
    to_else = {"opcode": "BRA", "guarded": True, "target": 64, "line": 8}
    over_it = {"opcode": "BRA", "target": 96, "line": 10}
    code = [{}, to_else, {"line": 2}, over_it, {"line": 3}, {"line": 3, "opcode": "MUFU"}, {}, EXIT]
    return work(*code, executed={1: 4, 8: 4, 2: taken, 10: taken, 3: other, 9: 4}).issued


def test_an_arm_that_no_warp_takes_does_not_hold_back_the_arm_behind_it() -> None:
    assert arms(4, 0).get("xu", 0) == 0
    assert arms(1, 3) == {"fma": 8 + 1 + 3, "xu": 3, "control": 4 + 1 + 4}
    assert arms(0, 4)["xu"] == 4


def test_a_function_that_is_called_is_executed_as_often_as_its_lines_were() -> None:
    call = {"opcode": "CALL", "target": 48, "line": 4}
    function = [{"line": 6, "opcode": "MUFU"}, {"opcode": "RET", "line": 7}]
    found = work({}, call, EXIT, *function, executed={1: 2, 4: 2, 6: 2, 7: 2, 9: 2})
    assert found.issued["xu"] == 2


STORE: dict[str, Any] = {"opcode": "STG", "line": 3}
NEXT = STORE | {"line": 6}
PART = StoreShape(sectors=16, fewest=4, passes=4, base="%rd1", offset=0)


def test_stores_of_parts_of_sectors_are_joined_if_one_follows_the_other() -> None:
    stores = {3: PART, 6: PART._replace(offset=4)}
    close = work(STORE, NEXT, EXIT, stores=stores)
    apart = work(STORE, *[{}] * 5, NEXT, EXIT, stores=stores)
    assert (close.joined.sectors, apart.joined.sectors) == (16, 0)
    copies = work(STORE, STORE, EXIT, stores={3: PART}, executed={3: 6, 9: 3})
    assert copies.joined.sectors == 3 * 16  # of each time


@pytest.mark.parametrize("other", [{"base": "%rd2"}, {"offset": 64}], ids=["at a base of its own", "two sectors on"])
def test_stores_to_other_sectors_are_not_joined(other: dict[str, Any]) -> None:
    stores = {3: PART, 6: PART._replace(**other)}
    assert work(STORE, NEXT, EXIT, stores=stores).joined.sectors == 0


def test_behind_a_barrier_all_warps_of_a_block_store_at_once_unless_each_takes_a_loop_before() -> None:
    meet, loop = {"opcode": "BAR", "line": 4}, {"opcode": "BRA", "guarded": True, "line": 8}
    stores = {3: PART, 6: PART._replace(offset=4)}

    def beside(*before: dict[str, Any]) -> float:
        executed = {1: 4, 3: 1, 4: 1, 6: 1, 8: 4, 9: 1}
        found = work(*before, STORE, NEXT, EXIT, stores=stores, warps=8, executed=executed).joined
        return found.together / found.open

    assert beside() == 1
    assert beside(meet) == 8
    assert beside(meet, {}, loop | {"target": 16}) == 1


def test_many_passes_let_other_warps_in_between() -> None:
    stores = {3: PART._replace(passes=32), 6: PART._replace(passes=32, offset=4)}
    found = work(STORE, NEXT, EXIT, stores=stores).joined
    assert found.together == 2 * found.open


def test_warps_that_a_barrier_keeps_in_step_wait_for_one_anothers_accesses() -> None:
    access: dict[str, Any] = {"opcode": "LDS", "sets": 0, "line": 3}
    meet = {"opcode": "BAR", "line": 4}

    def queued(*code: dict[str, Any], warps: int) -> float:
        return work(*code, USE, EXIT, passes={3: 4.0}, warps=warps).waits.get("queue", 0.0)

    assert queued(meet, access, warps=1) == queued(access, warps=8) == 0
    assert 0 < queued(meet, access, warps=2) < queued(meet, access, warps=8) < 8 * 4


def test_accesses_to_shared_memory_that_ptxas_joins_take_the_wavefronts_of_one() -> None:
    access = {"opcode": "LDS", "stall": 1, "line": 3}
    of_memory: dict[str, Any] = {
        "passes": {3: 2.0, 4: 2.0},
        "shared": frozenset({3, 4}),
        "executed": {3: 6, 4: 6, 9: 6},
    }
    apart = work(access, access | {"line": 4}, EXIT, **of_memory)
    joined = work(access, EXIT, **of_memory)
    assert apart.shared == (12, 24)
    assert joined.shared == (6, 12)
    assert work(access | {"opcode": "FFMA"}, EXIT, **of_memory).shared == (0, 0)


@pytest.mark.parametrize("first", ["LDG", "STG"])
def test_an_access_waits_for_the_passes_of_what_its_warp_accessed_before(first: str) -> None:
    before = {"opcode": first, "stall": 1, "line": 3}
    many, one = (work(before, LOAD, USE, EXIT, passes={3: passes}).waits for passes in (32.0, 1.0))
    assert many["queue"] == pytest.approx(31, rel=0.1)
    assert "queue" not in one
    later = work(before, *[{}] * 10, LOAD, USE, EXIT, passes={3: 32.0}).waits
    assert "queue" not in later  # the unit is through with it


def test_a_wait_for_copies_leaves_the_groups_that_may_stay_under_way() -> None:
    group = {"opcode": "LDGDEPBAR", "stall": 1, "line": 3}
    wait = {"opcode": "DEPBAR", "stall": 1, "line": 4}
    early = [group, *[{}] * 30, group, wait, EXIT]
    assert work(*early, pending={4: 0}).waits["copy"] > 0.9
    assert work(*early, pending={4: 1}).waits["copy"] < 0.6
