"""`evo explain`: what an expert sees first in kernels that nobody here tuned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evo.cli.app import run

FOREIGN = Path(__file__).parents[2] / "data" / "foreign"


@pytest.fixture(autouse=True)
def among_foreign_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVO_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(FOREIGN)


def explained(capsys: pytest.CaptureFixture[str], task: str, *options: str) -> Any:
    (file,) = sorted(Path("kernels", task, "ladder").glob("*.cu"))
    assert run(["explain", str(file), "--gpu", "l4", "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def opportunities(launch: Any) -> dict[str, Any]:
    return {found["name"]: found for found in launch["opportunities"]}


def test_a_naive_transpose_writes_a_sector_per_lane(capsys: pytest.CaptureFixture[str]) -> None:
    (launch,) = explained(capsys, "transpose_naive")["launches"]
    read, write = launch["accesses"]
    assert (read["array"], read["sectors_per_request"], read["stride_bytes"]) == ("a", 4, 4)
    assert (write["array"], write["sectors_per_request"], write["stride_bytes"]) == ("b", 32, 4096 * 4)
    assert opportunities(launch)["tile_through_shared"]["facts"]["arrays"] == ["b"]
    assert launch["threads_permute"] == {"holds": True}


def test_a_row_for_each_thread_wants_lanes_along_the_row(capsys: pytest.CaptureFixture[str]) -> None:
    (launch,) = explained(capsys, "softmax_rows")["launches"]
    assert {access["sectors_per_request"] for access in launch["accesses"]} == {32}
    assert [reduction["kind"] for reduction in launch["reductions"]] == ["max", "sum"]
    found = opportunities(launch)
    assert list(found)[:2] == ["lanes_along_loop", "online_softmax"]
    assert found["online_softmax"]["facts"]["array"] == "inp"
    assert launch["rereads_output"] == ["out"]


def test_product_guards_and_inlined_functions_hide_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    (norm,) = explained(capsys, "layernorm_product_guard")["launches"]
    assert opportunities(norm)["one_pass_statistics"]["facts"]["array"] == "inp"
    (inverse,) = explained(capsys, "small_inverse")["launches"]
    scattered = [found["facts"]["arrays"] for found in inverse["opportunities"] if found["name"] == "lanes_along_loop"]
    assert scattered == [["m"], ["inv"]]
    assert norm["blocked"] == inverse["blocked"] == []


def test_a_tiled_product_is_recognised(capsys: pytest.CaptureFixture[str]) -> None:
    (launch,) = explained(capsys, "sgemm_tiled")["launches"]
    (made,) = launch["contractions"]
    assert (made["kind"], made["left"], made["right"]) == ("matmul", "A", "B")
    assert {(staged["shared"], staged["tensor"]) for staged in launch["staged"]} == {("ds_M", "A"), ("ds_N", "B")}
    assert {"register_tile", "tensor_cores", "double_buffer"} <= set(opportunities(launch))


def test_axes_that_are_swapped_and_a_halo(capsys: pytest.CaptureFixture[str]) -> None:
    (launch,) = explained(capsys, "heat_stencil")["launches"]
    found = opportunities(launch)
    assert found["swap_thread_axes"]["facts"]["contiguous_index"] == "threadIdx.y"
    assert found["stage_in_shared"]["facts"]["box"] == [18, 18]


def test_atomics_that_meet(capsys: pytest.CaptureFixture[str]) -> None:
    count, copy = explained(capsys, "histogram256")["launches"]
    assert opportunities(count)["privatise"]["facts"]["bytes"] == 1024
    assert [access["mode"] for access in copy["accesses"]] == ["read", "write"]


def test_another_case_and_the_printed_page(capsys: pytest.CaptureFixture[str]) -> None:
    ragged = explained(capsys, "softmax_rows", "--case", "ragged")
    assert ragged["case"] == "ragged"
    assert ragged["launches"][0]["grid"] == [1, 1, 1]
    assert run(["explain", "kernels/histogram256/ladder/00_stranger.cu", "--gpu", "l4"]) == 0
    page = capsys.readouterr().out
    for word in ("launch 1 of 2", "launch 2 of 2", "sectors", "privatise"):
        assert word in page
