"""The last look at timed sizes on the simulator: what only shows there, and what a part of a grid cannot show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from long_cases import long
from task_folders import written_task
from tiny import FAST, REFERENCE, SLOW, TASK_YAML, evo, new_repository

from evo.device import DeviceName
from evo.evaluate import gate
from evo.evaluate.gate import at_timed_sizes
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate
from evo.results import Evaluation, FaultKind, Ground, MismatchKind, Stage, Status, Verdict
from evo.spec.task import Task

SLOWER = SLOW.replace("16", "64").replace("sixteen", "sixty-four")
HONEST = "    if (i < n) y[i] = 2.0f * x[i];"


@pytest.fixture(autouse=True)
def _look_at_timed_sizes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks before these, at what the source suggests and at the largest sizes, would find some of them first."""
    monkeypatch.setattr(EvaluationSession, "hunt", lambda *_, **__: None)
    monkeypatch.setattr(gate, "far_cases", lambda *_: ())


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    declared = TASK_YAML.replace("  small: {N: 131072}", "  small: {N: 131072}\n  large: {N: 262144}\nheadline: small")
    return written_task(tmp_path_factory.mktemp("timed"), declared, REFERENCE)


def judged(task: Task, bench: EvaluationSession, body: str, *, head: str = "") -> Evaluation:
    text = FAST.replace(HONEST, body).replace("// evo: launch", head + "// evo: launch")
    assert body in text
    return evaluate(Job(task=task, text=text, rival=SLOW, seed=7), bench)


def kind_of(found: Evaluation) -> MismatchKind | FaultKind:
    """What is wrong at a timed size: an output, or what the kernel did."""
    return found.check.mismatch.kind if found.check.mismatch else found.check.faults[0].kind


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ("    if (i < n) y[i] = (n > 131072 ? 2.1f : 2.0f) * x[i];", Status.WRONG, MismatchKind.TOLERANCE),
        (
            "    if (i < n && (n <= 131072 || blockIdx.x % 3)) y[i] = 2.0f * x[i];",
            Status.WRONG,
            MismatchKind.UNWRITTEN,
        ),
        (
            "    __shared__ float s[THREADS];\n    s[threadIdx.x] = 0.0f;\n    __syncthreads();\n"
            "    const float other = s[(threadIdx.x + 32) % THREADS];\n    if (n <= 131072) __syncthreads();\n"
            "    s[threadIdx.x] = 1.0f;\n    __syncthreads();\n"
            "    if (i < n) y[i] = (other > 9.0f ? 1.0f : 2.0f) * s[(threadIdx.x + 32) % THREADS] * x[i];",
            Status.UNSAFE,
            FaultKind.RACE,
        ),
    ],
    ids=["other values", "blocks left out", "a barrier left out"],
)
def test_what_is_wrong_at_a_timed_size_alone_is_seen(task, bench, body, status, kind):
    found = judged(task, bench, body)
    assert found.status is status, (found.reason, found.decision)
    assert (found.stage, found.check.failed.name) == (Stage.VERIFY, "large")
    assert kind_of(found) == kind
    assert found.decision is None
    assert not found.bench


@pytest.mark.parametrize(
    ("barrier", "stage"),
    [("", Stage.GATE), ("    if (n <= 131072) __syncthreads();\n", Stage.VERIFY)],
    ids=["everywhere", "at a timed size"],
)
def test_a_race_in_the_first_of_two_launches_is_seen(task, bench, barrier, stage):
    """The second launch reads what the first one left: it is right by luck."""
    signature = 'extern "C" __global__ void scale(const float* x, float* y, float* half, int n) {\n'
    index = "    const int i = blockIdx.x * THREADS + threadIdx.x;\n"
    first = (
        "    __shared__ float s[THREADS];\n    s[threadIdx.x] = 0.0f;\n    __syncthreads();\n"
        "    const float other = s[(threadIdx.x + 32) % THREADS];\n" + barrier + "    s[threadIdx.x] = 1.0f;\n"
        "    if (i < n) half[i] = (other > 9.0f ? 1.0f : 2.0f) * x[i];\n}\n"
    )
    text = FAST[: FAST.index('extern "C"')] + signature + index + first
    text += signature.replace("void scale", "void copy") + index + "    if (i < n) y[i] = half[i];\n}\n"
    launch = next(line for line in text.splitlines() if line.startswith("// evo: launch"))
    both = f"// evo: scratch half float32 [N]\n{launch}\n{launch.replace(' scale ', ' copy ')}"
    found = evaluate(Job(task=task, text=text.replace(launch, both), seed=7), bench)
    assert found.status is Status.UNSAFE, found.reason
    assert (found.stage, found.check.faults[0].kind) == (stage, FaultKind.RACE)


def test_an_honest_kernel_is_kept(task, bench):
    found = judged(task, bench, HONEST)
    assert found.decision.verdict is Verdict.KEEP, found.decision.reason


def test_what_champions_are_held_to_is_worked_out_once(task, bench, monkeypatch):
    monkeypatch.setattr(at_timed_sizes, "_ELEMENTS", 1 << 10)  # so that the reference is asked for a part of each size
    process = bench.reference(task).process
    sizes: list[int] = []

    def counted(function, arguments, **named):
        sizes.append(arguments[-1]["N"])
        return call(function, arguments, **named)

    call = process.call
    monkeypatch.setattr(process, "call", counted)
    assert judged(task, bench, "    if (i < n) y[i] = 3.0f * x[i] - x[i];").decision.verdict is Verdict.KEEP
    assert max(sizes) > 1000
    sizes.clear()
    assert judged(task, bench, "    if (i < n) y[i] = 4.0f * x[i] * 0.5f;").decision.verdict is Verdict.KEEP
    assert max(sizes, default=0) < 1000  # check cases at most


def test_one_block_that_does_the_work_of_all_takes_its_time(task, bench):
    body = (
        "    if (n > 131072 && blockIdx.x != 11) return;\n"
        "    const int first = n > 131072 ? threadIdx.x : i, step = n > 131072 ? THREADS : n;\n"
        "    for (int j = first; j < n; j += step) y[j] = 2.0f * x[j];"
    )
    found = judged(task, bench, body)
    assert found.decision.verdict is Verdict.REVERT
    assert (found.decision.ground, found.decision.case) == (Ground.CASE_LOSS, "large")
    (large,) = (row.estimate for row in found.bench if row.name == "large")
    assert large.limiter == "block"
    assert large.blocks_run == large.blocks_total  # a sample would have shown blocks that do nothing


def test_blocks_that_finish_one_anothers_work_are_honest(task, bench):
    """The block that arrives last writes for its pair: a sample of blocks writes less than its share."""
    body = (
        "    __shared__ int before;\n"
        "    if (i < n) half[i] = x[i];\n"
        "    __threadfence();\n    __syncthreads();\n"
        "    if (threadIdx.x == 0) before = atomicAdd(&arrived[blockIdx.x / 2], 1);\n    __syncthreads();\n"
        "    if (before == (blockIdx.x + 1 < gridDim.x || blockIdx.x % 2 ? 1 : 0)) {\n"
        "        __threadfence();\n"
        "        const int first = blockIdx.x / 2 * 2 * THREADS + threadIdx.x;\n"
        "        if (first < n) y[first] = 2.0f * half[first];\n"
        "        if (first + THREADS < n) y[first + THREADS] = 2.0f * half[first + THREADS];\n"
        "    }"
    )
    head = "// evo: scratch half float32 [N]\n// evo: scratch arrived int32 [ceil_div(N, 256)] init=zero\n"
    text = FAST.replace(HONEST, body).replace("// evo: launch", head + "// evo: launch")
    text = text.replace("float* y, int n", "float* y, float* half, int* arrived, int n")
    found = evaluate(Job(task=task, text=text, rival=SLOWER, seed=7), bench)
    assert found.status is Status.CORRECT, found.reason
    assert found.decision.verdict is Verdict.KEEP, found.decision.reason


def test_warps_that_idle_make_no_block_quicker(task, bench):
    """The time of an average warp would fall with each one that does nothing."""
    idle = SLOW.replace("block (THREADS)", "block (1024)").replace(
        "    const int first", "    if (threadIdx.x >= THREADS) return;\n    const int first"
    )
    times = [evaluate(Job(task=task, text=text, seed=7), bench).bench for text in (SLOW, idle)]
    for before, after in zip(*times, strict=True):
        assert after.time_us > 0.98 * before.time_us


SIGNATURE = "(const float* x, float* y, float* half, int* seen, int n)"
SPACES = "// evo: scratch half float32 [N]\n// evo: scratch seen int32 [ceil_div(N, 128)] init=zero\n"
COPY = "if (i < n) half[i] = x[i];"
DOUBLE = "if (i < n) y[i] = 2.0f * half[i];"


def in_sequence(*bodies: str) -> str:
    """A variant of several launches of one thread per element, which share a workspace and zeroed flags."""
    names = [f"step{number}" for number in range(len(bodies))]
    launches = [f"// evo: launch {name} grid (ceil_div(N, 128)) block (128) shared 0\n" for name in names]
    kernels = [
        f'extern "C" __global__ void {name}{SIGNATURE} {{\n'
        f"    const int i = blockIdx.x * 128 + threadIdx.x;\n    {body}\n}}\n"
        for name, body in zip(names, bodies, strict=True)
    ]
    return "".join(("// Steps.\n// evo: task   scale\n", SPACES, *launches, *kernels))


LARGE = "n > 131072"
WAIT = (
    "if (threadIdx.x == 0 && blockIdx.x > 0) while (atomicAdd(seen + blockIdx.x - 1, 0) == 0);\n    __syncthreads();\n"
    "    {work}\n    __threadfence();\n    __syncthreads();\n"
    "    if (threadIdx.x == 0) atomicExch(seen + blockIdx.x, 1);"
)


@pytest.mark.parametrize(
    "bodies",
    [
        (COPY, DOUBLE),
        long(("if (i < n / 2) y[i] = 2.0f * x[i];", "if (i >= n / 2 && i < n) y[i] = 2.0f * x[i];")),
        long(("if (i < n) y[i] = x[i];", "if (i < n) y[i] *= 2.0f;")),
        ("if (i < n) y[i] = 0.0f;", "if (i < n) atomicAdd(y + i, 2.0f * x[i]);"),
        long((COPY, WAIT.format(work=DOUBLE))),
    ],
    ids=["a workspace", "a half each", "in place", "cleared and added to", "blocks that wait for the one before"],
)
def test_an_honest_sequence_passes(task, bench, bodies):
    found = evaluate(Job(task=task, text=in_sequence(*bodies), seed=7), bench)
    assert found.status is Status.CORRECT, found.reason
    assert [row.name for row in found.bench] == ["small", "large"]


@pytest.mark.parametrize(
    ("bodies", "status", "kind"),
    [
        (
            (f"if (i < ({LARGE} ? n / 2 : n)) y[i] = 2.0f * x[i];", "if (i < n && n < 0) y[i] = half[i] + seen[i];"),
            Status.WRONG,
            MismatchKind.UNWRITTEN,
        ),
        (
            (COPY, f"if ({LARGE} && i + 1 == n) y[n] = 0.0f;\n    {DOUBLE}"),
            Status.UNSAFE,
            FaultKind.OUT_OF_BOUNDS,
        ),
        long(
            (
                COPY,
                "__shared__ int before;\n    if (threadIdx.x == 0) before = atomicAdd(seen, 1);\n    __syncthreads();"
                f"\n    if ({LARGE} && before > 99) return;\n    {DOUBLE}",
            ),
            Status.WRONG,
            MismatchKind.UNWRITTEN,
        ),
        long(
            (
                COPY,
                f"if ({LARGE} && threadIdx.x == 0 && blockIdx.x > 0 && seen[blockIdx.x - 1] == 9) return;\n"
                f"    if (threadIdx.x == 0) seen[blockIdx.x] = 1;\n    {DOUBLE}",
            ),
            Status.UNSAFE,
            FaultKind.RACE,
        ),
        (
            (
                "if (i < n) half[i] = 0.0f;",
                f"{COPY}\n    if ({LARGE} && threadIdx.x == 0 && i > 0) half[i - 1] = 0.0f;",
                DOUBLE,
            ),
            Status.UNSAFE,
            FaultKind.RACE,
        ),
        long(
            (f"if (i < n) half[i] = {LARGE} && i == 70001 ? 9.0f : x[i];", DOUBLE), Status.WRONG, MismatchKind.TOLERANCE
        ),
    ],
    ids=[
        "half by the first launch, nothing by the last",
        "past the end in the last block",
        "blocks that come late do nothing",
        "a neighbour's flag",
        "a race in the second of three",
        "one value of the first launch",
    ],
)
def test_what_is_wrong_in_a_sequence_at_a_timed_size_alone_is_seen(task, bench, bodies, status, kind):
    found = evaluate(Job(task=task, text=in_sequence(*bodies), seed=7), bench)
    assert found.status is status, (found.reason, found.bench)
    assert (found.stage, kind_of(found)) == (Stage.VERIFY, kind)


def test_a_time_that_a_sample_hid_is_not_shown(task, bench):
    """The first launch writes all of the output, so that no share is missing where one block does the second's work."""
    work = (
        f"if ({LARGE} && blockIdx.x != 11) return;\n"
        f"    for (int j = {LARGE} ? threadIdx.x : i; j < n; j += {LARGE} ? 128 : n) y[j] = 2.0f * x[j];"
    )
    text = in_sequence("if (i < n) y[i] = half[i] = 0.0f;", work)
    idle = "for (int turn = 0; turn < 20000; ++turn) if (turn > n) return;\n    "
    for rival in (None, in_sequence(idle + COPY, DOUBLE)):
        shown = evaluate(Job(task=task, text=text, rival=rival, seed=7), bench)
        assert rival is None or shown.decision.verdict is Verdict.KEEP, shown.decision.reason
        (large,) = (row.estimate for row in shown.bench if row.name == "large")
        assert large.limiter == "block"
        assert large.modelled_us > 50  # a sample of blocks would say some 10


@pytest.mark.parametrize("device", ["sim", long("gpu")])
def test_a_look_at_timed_sizes_alone_says_what_it_could_not_see(task, bench, device, monkeypatch):
    """Blocks that wait for the one before are all needed; here all of them are too many."""
    monkeypatch.setattr(at_timed_sizes, "_BUDGET", 20_000)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3] / "support"))
    text = in_sequence(COPY, WAIT.format(work=DOUBLE))
    words = "case small cannot be verified on the simulator: its blocks need one another"
    if device == "sim":
        seen = evaluate(Job(task=task, text=text, seed=8, upto="timed"), bench)
    else:
        with EvaluationSession(DeviceName("gpu", "0"), arch="native", opener="stand_in_gpu:StandInGpu") as gpu:
            seen = evaluate(Job(task=task, text=text, seed=8, upto="timed"), gpu)
    assert seen.status is Status.CORRECT, seen.reason
    assert words in seen.check.unseen
    assert words in seen.check.to_json()["unseen"]


@pytest.mark.long
def test_evo_check_looks_at_timed_sizes_when_it_is_asked_to(tmp_path):
    root = new_repository(tmp_path)
    (root / "slip.cu").write_text(
        FAST.replace(HONEST, "    if (i < n) y[i] = (n == 131072 && i == 70001 ? 3.0f : 2.0f) * x[i];")
    )
    task_file = root / "kernels" / "scale" / "task.yaml"
    task_file.write_text(
        task_file.read_text().replace("small: {N: 131072}", "small: {N: 4096}\n  large: {N: 131072}\nheadline: small")
    )
    assert evo("check", "slip.cu", "--device", "sim:l4", cwd=root).code == 0
    ran = evo("check", "slip.cu", "--device", "sim:l4", "--timed", "--json", cwd=root)
    assert ran.code == 1
    found = json.loads(ran.out)
    # The size in the source is hunted first, which is the timed one.
    assert (found["stage"], found["cases"][-1]["name"]) == ("threshold", "(N 131072)")
    mismatch = found["cases"][-1]["mismatch"]
    assert (mismatch["kind"], mismatch["tensor"], mismatch["index"]) == ("tolerance", "y", [70001])


ROUNDED = """
import numpy as np


def inputs(case, rng):
    x = rng.standard_normal(case["N"], dtype=np.float32)
    if case["N"] > 65536:  # a few near ties
        many = (rng.integers(-90, 90, 4096) + 0.5).astype(np.float32) * np.float32(0.05)
        hard = many[np.rint(many / np.float32(0.05)) != np.rint(many.astype(np.float64) * 20)]
        x[:: case["N"] // 32] = rng.choice(hard, 32)
    return {"x": x}


def expected(inputs):
    return {"y": np.rint(inputs["x"].astype(np.float64) * 20).astype(np.int32)}
"""


@pytest.mark.parametrize(("more", "status"), [("", Status.CORRECT), (" + (i % 512 == 7)", Status.WRONG)])
def test_near_ties_of_whole_numbers_are_excused_there(tmp_path, bench, more, status):
    """x / 0.05 in float is not always where 20 x is; what is no tie is held to the truth."""
    declared = TASK_YAML.replace("{name: y, role: out, dtype: float32", "{name: y, role: out, dtype: int32")
    task = written_task(tmp_path, declared, ROUNDED)
    text = FAST.replace("float* y", "int* y").replace(
        "y[i] = 2.0f * x[i]", f"y[i] = __float2int_rn(x[i] / 0.05f){more}"
    )
    prepared = bench.prepare(task, text)
    seen = gate.timed_sizes(task, prepared.programs, bench.reference(task), bench.checker, 7)
    assert seen.status is status, seen.reason
