"""The ask-tell protocol, line by line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evo.errors import TaskInvalid
from evo.search.knobs.ask_tell import AskTellSession
from evo.search.knobs.strategies import strategy


def talk(*lines: object) -> list[dict[str, Any]]:
    given = [(line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines]
    return list(AskTellSession(lambda space, seed: strategy("evo", space, seed=seed)).replies(iter(given)))


def init(**more: Any) -> dict[str, Any]:
    knobs = [{"name": "n", "values": [1, 2.5, "three", True]}, {"name": "m", "values": [16, 32]}]
    return {"op": "init", "knobs": knobs, "budget": 3, "seed": 1, **more}


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [{"op": "end"}],
        [init()],
        [init(), {"op": "end"}],
        [init(legal=[])],
        [init(budget=3.0, seed=10**40), {"tell": 1, "left": 2.0}],
        ["", init(), "", {"tell": 1, "left": 1}],
        [init(), '{"tell": 1' + "0" * 400 + "}", '{"tell": NaN}'],
    ],
)
def test_a_conversation_may_end_anywhere(lines: list[Any]) -> None:
    assert all("ask" in reply for reply in talk(*lines))


def test_a_small_space_is_done_when_every_point_was_tried() -> None:
    opening = {"op": "init", "knobs": [{"name": "a", "values": ["x"]}], "budget": 9}
    assert talk(opening, {"tell": 1.0, "status": "ok"}) == [{"ask": ["x"]}, {"done": True}]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["{"], ["<stdin>:1", "JSON"]),
        (["[1]"], ["<stdin>:1", "object"]),
        ([{"op": "start"}], ["<stdin>:1", "init"]),
        ([init(knobs=[])], ["knobs"]),
        ([init(knobs=[{"name": "a", "values": [[1]]}])], ["knob a"]),
        (['{"op": "init", "knobs": [{"name": "a", "values": [1, NaN]}]}'], ["<stdin>:1", "knob a", "finite"]),
        ([init(budget=2.5)], ["budget", "2.5"]),
        ([init(), init()], ["<stdin>:2", "tell"]),
        ([init(knobs=[{"name": "a", "values": [1]}] * 2)], ["twice"]),
        ([init(budget="many")], ["budget"]),
        ([init(seed=-1)], ["seed"]),
        ([init(legal=[[1]])], ["legal", "2 values"]),
        ([init(legal=[[7, 16]])], ["legal", "row 1", "n"]),
        ([init(), {"told": 1}], ["<stdin>:2", "tell"]),
        ([init(), {"tell": "fast"}], ["<stdin>:2", "tell"]),
        ([init(), {"tell": 1, "status": "great"}], ["status"]),
        ([init(), "1" * 5000], ["<stdin>:2"]),
        ([init(knobs=[{"name": "n", "values": [1, 10**400]}])], ["<stdin>:1", "knob n", "integer of 1,329 bits"]),
    ],
)
def test_a_malformed_line_is_named_and_ends_it(lines: list[Any], words: list[str]) -> None:
    with pytest.raises(TaskInvalid) as caught:
        talk(*lines)
    for word in words:
        assert word in caught.value.message


def test_values_come_back_as_they_were_given() -> None:
    points = [[1, 16], [2.5, 16], ["three", 32], [True, 32]]
    answers = [{"tell": 1.0 + i, "status": "ok"} for i in range(4)]
    asked = [reply["ask"] for reply in talk(init(legal=points, budget=9), *answers) if "ask" in reply]
    assert sorted(map(json.dumps, asked)) == sorted(map(json.dumps, points))


def test_budgets_are_kept_and_outside_points_are_free() -> None:
    outside = {"tell": None, "status": "outside"}
    replies = talk(init(budget=2), outside, outside, {"tell": 2.0, "status": "ok"}, {"tell": None, "status": "failed"})
    assert [("ask" in reply) for reply in replies] == [True, True, True, True, False]
    assert talk(init(budget=0)) == [{"done": True}]


def test_a_large_space_without_a_legal_point_ends() -> None:
    """With a strategy that takes no time; another one that finds a legal point at last goes on."""
    opening = {"op": "init", "knobs": [{"name": f"k{i}", "values": list(range(10))} for i in range(6)], "budget": 3}
    outside, good = {"tell": None, "status": "outside"}, {"tell": 1.0, "status": "ok"}

    def said(*answers: dict[str, Any]) -> list[dict[str, Any]]:
        lines = (json.dumps(line) + "\n" for line in (opening, *answers))
        return list(AskTellSession(lambda space, seed: strategy("random", space, seed=seed)).replies(lines))

    replies = said(*[outside] * 2000)
    assert len(replies) == 1001
    assert replies[-1]["done"] is True
    assert "1000 points" in replies[-1]["reason"]
    assert said(*[*[outside] * 999, good] * 3)[-1] == {"done": True}


def test_a_byte_order_mark_and_a_status_of_null_are_no_matter() -> None:
    lines = ["\ufeff" + json.dumps(init()), {"tell": 2.0, "status": None}, {"op": "end"}]
    assert len(talk(*lines)) == 2
