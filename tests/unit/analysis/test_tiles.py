"""Layouts looked at address by address, the seeds' wrong ones refused with their numbers, and what derive chooses."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from long_cases import long
from refusals import refused
from tiny import TASK_YAML, tiny_task

from evo.analysis.roofline import limits
from evo.analysis.tiles import by_formula, check_layouts, conflicts, derive, prove, strided, swizzled, vector_width
from evo.analysis.tiles.shared_layout import Layout
from evo.cli.pages.tile_derivation import DerivationEvidence, explain, predictions
from evo.device import DeviceName, RunRequest
from evo.device.remote_device import RemoteSimulator
from evo.errors import SyntaxInvalid, TaskInvalid
from evo.evaluate.prepare import Prepared, PrepareFailure, prepare
from evo.spec.chips import chip
from evo.spec.expr import parse
from evo.spec.launch import Launch, over_resources
from evo.spec.reference import load_reference
from evo.spec.task import Case, Task, load_task
from evo.spec.variant import read_variant

ROOT = Path(__file__).parents[3]
L4 = chip("l4")
ADDITIVE = "row * (64 + 8) + col + ((((row >> 2) ^ (col >> 4)) & 7) << 2)"
RIGHT = "row * 64 + (((col >> 3) ^ (row & 7)) << 3) + (col & 7)"


# --- layouts


def test_a_row_of_65_halfs_misaligns_seven_copies_in_eight() -> None:
    proof = prove(strided("k", 64, 64, 2, pad=1))
    assert (proof.misaligned, proof.chunks) == (448, 512)
    assert proof.first_misaligned[:3] == (0x82, 0x104, 0x186)
    assert not proof.sound
    assert "448 of 512 16-byte chunks misaligned, e.g. at 0x82, 0x104, 0x186" in proof.faults


def test_the_additive_swizzle_is_no_permutation() -> None:
    layout = by_formula("k", 32, 64, "float16", parse(ADDITIVE), 32 * 72)
    proof = prove(layout)
    assert (proof.elements, proof.distinct, proof.lost) == (2048, 1768, 280)
    assert (proof.out_of_bounds, proof.largest_offset, proof.allocated) == (8, 2311, 2304)
    assert (proof.misaligned, proof.chunks) == (128, 256)
    assert len(proof.faults) == 3


def test_the_right_swizzle_is_a_permutation_without_conflicts() -> None:
    stated = by_formula("k", 64, 64, "float16", parse(RIGHT), 64 * 64)
    proof = prove(stated, ("ldmatrix", "fragment", "vector"))
    assert proof.sound
    assert proof.distinct == 4096
    derived = swizzled("k", 64, 64, 2)
    assert derived is not None
    assert (derived.offsets == stated.offsets).all()


@pytest.mark.parametrize(
    ("pad", "access", "ways"),
    [
        (0, "column", 32), (1, "column", 2), (2, "column", 1), (8, "column", 4), (0, "ldmatrix", 8),
        (0, "fragment", 8), (8, "ldmatrix", 1), (8, "fragment", 1), (0, "broadcast", 1), (0, "row", 1),
    ],
)  # fmt: skip
def test_bank_conflicts_of_64_halfs_a_row(pad: int, access: str, ways: int) -> None:
    assert conflicts(strided("k", 64, 64, 2, pad=pad), access) == ways


def served(addresses: list[int], width: int) -> int:
    """Rounds of one phase, written down again from the rule: each bank serves one distinct word a round."""
    words = {byte // 4 for address in addresses for byte in range(address, address + width)}
    banks = [word % 32 for word in words]
    return max(banks.count(bank) for bank in set(banks))


@pytest.mark.parametrize("seed", range(6))
def test_conflicts_agree_with_the_rule_on_random_strides(seed: int) -> None:
    rng = random.Random(seed)
    rows, cols, size = rng.choice([8, 16, 40]), rng.choice([16, 48, 80, 128]), rng.choice([1, 2, 4])
    layout = strided("x", rows, cols, size, pad=rng.randrange(20))
    at = layout.addresses.tolist()
    column = max(
        served([at[r][c] for r in range(top, min(top + 32, rows))], size)
        for top in range(0, rows, 32)
        for c in range(cols)
    )
    assert conflicts(layout, "column") == column
    chunk = 16 // size
    eights = max(
        served([at[r][c] for r in range(top, top + 8)], 16)
        for top in range(0, rows - 7, 8)
        for c in range(0, cols - chunk + 1, chunk)
    )
    assert conflicts(layout, "ldmatrix") == eights


@pytest.mark.parametrize("cols", [8, 16, 32, 64, 128, 256])
@pytest.mark.parametrize("rows", [8, 24, 64])
def test_swizzles_of_every_width_are_sound(rows: int, cols: int) -> None:
    layout = swizzled("x", rows, cols, 2)
    assert layout is not None
    assert prove(layout, ("ldmatrix", "vector")).sound


@pytest.mark.parametrize("cols", [12, 24, 80, 96])
def test_a_width_that_xor_would_leave_is_not_swizzled(cols: int) -> None:
    assert swizzled("x", 64, cols, 2) is None


def test_an_offset_below_the_base_is_out_of_bounds() -> None:
    layout = by_formula("x", 8, 8, "float32", parse("row * 8 + col - 1"), 64)
    assert prove(layout).out_of_bounds == 1


# --- files


FILE = f"""\
// Layouts of the wrong kind.
#define BLOCK_N 32
constexpr int PAD = 8 / 4 - 1;
// layout: swizzled BLOCK_N x 64 float16 at {ADDITIVE} of BLOCK_N * 72 read ldmatrix
// layout: right 2 * BLOCK_N x D float16 at {RIGHT} of 64 * D read ldmatrix, fragment
__global__ void f() {{
    __shared__ __align__(16) half rows[2 * BLOCK_N][D + PAD];
    __shared__ float sums[8][33];
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;");
}}
"""


def test_a_files_arrays_and_layout_lines_are_checked() -> None:
    found = {one.layout.name: one for one in check_layouts(FILE, path="f.cu", axes={"D": 64}, knobs={})}
    assert set(found) == {"swizzled", "right", "rows", "sums"}
    assert found["rows"].proof.misaligned == 448
    assert found["rows"].line == 7
    assert found["swizzled"].proof.lost == 280
    assert found["right"].proof.sound
    assert found["swizzled"].proof.faults
    assert not found["right"].proof.faults


@pytest.mark.parametrize(
    ("file", "fault"),
    [
        ("misaligned.cu", "224 of 256 16-byte chunks misaligned, e.g. at 0x82, 0x104, 0x186"),
        ("additive_swizzle.cu", "not injective: 2048 elements at 1768 addresses, 280 are lost"),
        ("additive_swizzle.cu", "8 elements out of bounds: largest offset 2311 of 2304"),
    ],
)
def test_the_shipped_wrong_layouts_are_refused(file: str, fault: str) -> None:
    path = ROOT / "kernels" / "attention" / "wrong" / file
    variant = read_variant(path)
    (found,) = check_layouts(variant.text, path=str(path), axes={"D": 64}, knobs=variant.integer_knobs)
    assert fault in found.proof.faults


def test_the_scalar_kernel_of_512_threads_is_refused_once_compiled() -> None:
    task = load_task(ROOT, "attention")
    path = task.folder / "wrong" / "too_many_registers.cu"
    refused = prepare(task, path.read_text(), chip=L4, arch="sm_89", cases=[task.case("b2")])
    assert isinstance(refused, PrepareFailure)
    registers = int(refused.reason.split(" registers")[0].split()[-1])
    taken = -(-registers * 32 // 256) * 256 * 16
    assert taken > 65_536
    assert f"({taken} of 65536 allocated)" in refused.reason


@pytest.mark.parametrize(
    "line",
    ["k 64", "k 64 x 64 half at row * 64", "k 64 x 64 float16 at row * what", "k 64 x 64 float16 at row read never",
     "k 0 x 64 float16 at row", "k 8 x 8 float64 at row * 8 + col read fragment"],
)  # fmt: skip
def test_a_layout_line_that_cannot_be_read_names_its_place(line: str) -> None:
    with pytest.raises(SyntaxInvalid, match=r"f\.cu:2: "):
        check_layouts(f"// x\n// layout: {line}\n", path="f.cu", axes={}, knobs={})


# --- choosing


def test_512_threads_of_167_registers_cannot_launch(tmp_path: Path) -> None:
    launch = Launch(kernel="scalar", grid=(1, 1, 1), block=(512, 1, 1), shared_bytes=0)
    reason = over_resources(launch, L4, registers=167, static_shared=0)
    assert reason == "scalar: 167 registers x 512 threads exceed the register file (86016 of 65536 allocated)"
    section = "derive: {tiles: {T: [128, 512]}, threads: T, blocks: N, registers: {all: 167}}\n"
    task = tiny_task(tmp_path, TASK_YAML + section)
    found = derive(task, L4, task.case("small"))
    assert [one.tile for one in found.candidates] == [{"T": 128}]
    assert [one.tile for one in found.rejected] == [{"T": 512}]
    assert "86016 of 65536" in found.rejected[0].reason


def test_attention_at_d64_double_buffers_in_40_kib_without_padding() -> None:
    task = load_task(ROOT, "attention")
    found = derive(task, L4, task.case("b4"))
    wanted = {"BLOCK_M": 64, "BLOCK_N": 64, "STAGES": 2}
    one = next(candidate for candidate in found.candidates if candidate.tile == wanted)
    assert one.shared_bytes == 40_960
    assert one.mma == 524_288
    assert one.bytes_l2 == 37_748_736
    assert (one.blocks, one.threads) == (256, 128)
    assert one.busy == pytest.approx(0.883, abs=1e-3)
    for part in one.placed:
        assert "c ^ (r & 7)" in part.layout
        assert part.proof.ways == {"ldmatrix": 1}
        assert [other.layout for other in part.instead_of] == ["row-major, 128 B"]


def test_a_head_of_80_is_padded_because_xor_would_leave_the_row() -> None:
    task = load_task(ROOT, "attention")
    axes = {"B": 2, "HQ": 8, "HKV": 8, "SQ": 512, "SK": 512, "D": 80, "CAUSAL": 0}
    found = derive(task, L4, Case(name="x", axes=axes))
    layouts = {part.layout for part in found.chosen.placed}
    assert layouts == {"row-major, 160 B"} or all("+ 8 elements" in how for how in layouts)
    assert all(part.proof.sound for part in found.chosen.placed)


def test_rows_that_are_not_16_byte_aligned_rule_the_design_out() -> None:
    task = load_task(ROOT, "matmul")
    odd = Case(name="x", axes={"M": 512, "N": 500, "K": 512})
    assert vector_width(task, odd) == 8
    with refused(TaskInvalid, "no-legal-configuration") as caught:
        derive(task, L4, odd)
    assert "alignment" in caught.value.hint


@pytest.mark.parametrize("slug", ["l4", "h200", "a100", "b200"])
@pytest.mark.parametrize("name", ["attention", "matmul", "softmax", "rmsnorm", "add_layernorm", "rope"])
def test_every_legal_candidate_keeps_every_limit(name: str, slug: str) -> None:
    task, row = load_task(ROOT, name), chip(slug)
    found = derive(task, row, task.case(task.headline))
    combinations = 1
    assert task.choices is not None
    for values in task.choices.tiles.values():
        combinations *= len(values)
    assert len(found.candidates) + len(found.rejected) == combinations
    for one in found.candidates:
        assert one.shared_bytes <= row.shared_per_block_optin
        assert one.registers <= 255
        assert one.resident >= 1
        assert -(-one.registers * 32 // 256) * 256 * one.threads // 32 * one.resident <= row.registers_per_sm
        assert (
            one.resident * (one.shared_bytes + row.shared_reserved_per_block) <= row.shared_per_sm
            or not one.shared_bytes
        )
        assert one.resident * one.threads <= row.threads_per_sm
        assert all(part.proof.sound for part in one.placed)
    assert all(one.reason for one in found.rejected)
    times = [one.modelled_us for one in found.candidates]
    assert times[0] <= min(times) * 1.011


def test_knobs_are_of_a_rung_and_inside_its_domains() -> None:
    task = load_task(ROOT, "matmul")
    found = derive(task, L4, task.case("square2k"))
    assert found.knobs
    for name, knobs in found.knobs.items():
        domains = {knob.name: knob.domain for knob in read_variant(task.folder / "ladder" / name).knobs}
        assert all(value in domains[knob] for knob, value in knobs.items())
    refuse = derive(task, L4, task.case("square2k"), accept=lambda variant: "no")
    assert refuse.knobs == {}
    assert ("30_mma.cu", "no") in refuse.unmatched


def test_a_chip_without_the_instructions_is_refused_with_the_condition() -> None:
    task = load_task(ROOT, "attention")
    with refused(TaskInvalid, "no-legal-configuration") as caught:
        derive(task, chip("t4"), task.case("b2"))
    assert "48x require: `chip.capability >= 80` does not hold" in caught.value.hint
    rows = load_task(ROOT, "rmsnorm")
    assert (
        derive(rows, chip("t4"), rows.case("rows4k")).chosen.resident >= 1
    )  # nothing in shared memory, nothing reserved


def test_measured_rates_go_before_the_table() -> None:
    task = load_task(ROOT, "attention")
    case = task.case("b2")
    plain = derive(task, L4, case)
    assert "l2" in plain.estimated
    measured = derive(task, L4, case, measured={"l2_read_bytes_per_s": 0.2e12, "mma_f16_flop_per_s": 60e12})
    assert "l2" not in measured.estimated
    assert measured.chosen.binds == "l2"
    assert measured.chosen.tile["BLOCK_M"] == 128  # a slow L2 asks for fewer readers of each key


def test_a_task_without_choices_or_with_too_many_is_refused(tmp_path: Path) -> None:
    bare = tiny_task(tmp_path / "a", TASK_YAML)
    with pytest.raises(TaskInvalid, match="no `derive` section"):
        derive(bare, L4, bare.case("small"))
    values = str(list(range(1, 61)))
    section = f"derive: {{tiles: {{S: {values}, T: {values}, U: {values}}}, threads: 32, blocks: N}}\n"
    large = tiny_task(tmp_path / "b", TASK_YAML + section)
    with pytest.raises(TaskInvalid, match="216,000 combinations"):
        derive(large, L4, large.case("small"))


def test_the_document_keeps_hypotheses_apart_from_results() -> None:
    task = load_task(ROOT, "attention")
    found = derive(task, L4, task.case("b2"))
    text = explain(found, L4, DerivationEvidence())
    order = [text.index(f"## {title}") for title in ("Limits", "Decisions", "Hypotheses", "Results", "Cost so far")]
    assert order == sorted(order)
    assert "hmma: 262,144" in text[order[2] : order[3]]
    assert "Nothing of this has been compiled or measured yet." in text[order[3] : order[4]]
    measured = explain(found, L4, DerivationEvidence(measured=[("champion abc", 17.7244)]))
    assert "champion abc 17.72 µs, 50% of the floor's speed" in measured


# --- against the simulator


def counters_of(task: Task, text: str, case: Case) -> dict[str, int]:
    prepared = prepare(task, text, chip=L4, arch="sm_89", cases=[case])
    assert isinstance(prepared, Prepared)
    request = RunRequest(
        program=prepared.programs[case.name], inputs=load_reference(task).inputs(case, 0), check_races=False
    )
    with RemoteSimulator(DeviceName("sim", "l4")) as simulator:
        return simulator.run(request, time_limit_s=200).counters


def counted(name: str, rung: str, axes: dict[str, int]) -> tuple[dict[str, float], dict[str, int]]:
    """What was predicted for a case, and what the simulator counts in the rung with the derived knobs."""
    task = load_task(ROOT, name)
    case = Case(name="derived", axes=axes)
    found = derive(task, L4, case)
    variant = read_variant(task.folder / "ladder" / rung)
    changed = {knob: value for knob, value in found.knobs[rung].items() if variant.knob_values[knob] != value}
    text = variant.with_knobs(changed).text if changed else variant.text
    return predictions(found), counters_of(task, text, case)


@pytest.mark.parametrize(
    ("name", "rung", "axes"),
    [
        ("attention", "40_mma.cu", {"B": 1, "HQ": 2, "HKV": 1, "SQ": 256, "SK": 128, "D": 64, "CAUSAL": 0}),
        long("attention", "40_mma.cu", {"B": 1, "HQ": 2, "HKV": 1, "SQ": 256, "SK": 128, "D": 128, "CAUSAL": 1}),
        long("matmul", "30_mma.cu", {"M": 256, "N": 256, "K": 128}),
        long("conv2d", "20_mma.cu",
             {"N": 2, "H": 10, "W": 18, "C": 64, "K": 128, "R": 3, "S": 3, "STRIDE": 1, "PAD": 0, "DIL": 1}),
    ],
)  # fmt: skip
def test_predicted_counts_are_what_the_simulator_counts(name: str, rung: str, axes: dict[str, int]) -> None:
    predicted, seen = counted(name, rung, axes)
    assert seen["mma_instructions"] == predicted["hmma"]
    assert seen["global_sectors_ideal"] == predicted["l2_sectors"]
    assert seen["unique_read_bytes"] + seen["unique_write_bytes"] == predicted["dram_bytes_cold"]
    assert seen["shared_wavefronts"] - seen["shared_wavefronts_ideal"] == predicted["bank_conflicts"]


@pytest.mark.parametrize(
    ("name", "rung", "axes", "tile"),
    [
        (
            "attention", "50_wide.cu", {"B": 1, "HQ": 2, "HKV": 2, "SQ": 128, "SK": 192, "D": 64, "CAUSAL": 0},
            {"BLOCK_M": 64},
        ),
        long("attention", "50_wide.cu",
             {"B": 1, "HQ": 2, "HKV": 2, "SQ": 384, "SK": 128, "D": 128, "CAUSAL": 0}, {"BLOCK_M": 128}),
        long("matmul", "40_warp_tile.cu", {"M": 256, "N": 384, "K": 96}, {"BLOCK_M": 128, "BLOCK_N": 128}),
        long("matmul", "60_lean.cu", {"M": 256, "N": 512, "K": 160}, {"BLOCK_M": 128, "BLOCK_N": 256}),
        long("matmul", "70_sized.cu", {"M": 192, "N": 320, "K": 128}, {"BLOCK_M": 64, "BLOCK_N": 64}),
    ],
)  # fmt: skip
def test_rungs_that_store_16_bytes_request_exactly_the_predicted_sectors(
    name: str, rung: str, axes: dict[str, int], tile: dict[str, int]
) -> None:
    task, case = load_task(ROOT, name), Case(name="full", axes=axes)
    found = limits(task, case, L4)
    seen = counters_of(task, read_variant(task.folder / "ladder" / rung).text, case)
    assert seen["mma_instructions"] == found.flop / 4096
    (predicted,) = [t.bytes_l2 for t in found.tiles if tile.items() <= t.tile.items()]
    assert predicted is not None
    assert seen["global_sectors"] == predicted / 32
    assert seen["unique_read_bytes"] + seen["unique_write_bytes"] == found.bytes_compulsory


def test_a_layout_knows_its_size() -> None:
    layout: Layout = strided("x", 32, 64, 2, pad=8)
    assert layout.size_bytes == 4608
    assert (layout.rows, layout.cols) == (32, 64)
