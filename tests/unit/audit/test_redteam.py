"""The red team: its folder is complete and readable, its judges disagree, and the command says who won."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from long_cases import long
from refusals import refused
from tiny import evo

from evo.audit.redteam import (
    PROCEDURES,
    Judgement,
    NaiveHarness,
    Outcome,
    chosen,
    load_attacks,
    planted_file,
    run_all,
    run_attack,
    run_procedure,
    task_folder,
)
from evo.audit.redteam.attack import read_attack
from evo.audit.redteam.campaign import judges as judges_of
from evo.cli.app import run
from evo.device import DeviceName, parse_device
from evo.errors import HarnessFault, SyntaxInvalid, UsageError
from evo.evaluate.gate import ptx_problem, static_problem
from evo.evaluate.pipeline import EvaluationSession, Job, evaluate
from evo.evaluate.prepare import PrepareFailure, prepare
from evo.results import FaultKind, Stage, StaticRule, Status
from evo.spec.task import read_task
from evo.spec.variant import parse_variant

ROOT = Path(__file__).parents[3]
TASKS = ROOT / "kernels"
ATTACKS = {attack.name: attack for attack in load_attacks()}
CATALOGUE = {str(row) for row in (*range(1, 7), 11, 12, *range(14, 23), 24, 25, 29)}
FAILURE_MODES = {f"F{number}" for number in range(1, 18)}
# Quick ones, one per defence; the long suite runs them all.
SAMPLE = (
    "unwritten",
    "replay_scratch",
    "nan_fill",
    "half_squares",
    "missing_barrier",
    "macro_include",
    "replay_hidden",
)


@pytest.fixture(scope="module")
def judges():
    with (
        planted_file() as planted,
        EvaluationSession(parse_device("sim:l4")) as bench,
        NaiveHarness(bench.device, chip=bench.chip, arch=bench.arch, planted=planted) as naive,
    ):
        yield bench, naive


def test_every_row_and_failure_mode_has_a_case():
    rows = {row for attack in ATTACKS.values() for row in attack.rows} | {p.row for p in PROCEDURES}
    assert rows >= CATALOGUE | FAILURE_MODES
    assert len({attack.task for attack in ATTACKS.values()}) >= 3


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=lambda attack: attack.name)
def test_an_attack_is_a_variant_of_its_task(attack):
    assert parse_variant(attack.text, path=attack.path).task == attack.task
    assert attack.path.name.startswith(
        f"{int(attack.rows[0]):02}_" if attack.rows[0].isdigit() else attack.rows[0].lower()
    )


@pytest.mark.parametrize("name", SAMPLE)
def test_the_naive_harness_takes_it_and_evo_does_not(judges, name):
    outcome = run_attack(ATTACKS[name], TASKS, *judges)
    assert outcome.counts, outcome.naive
    assert outcome.verdict == "lost"
    assert outcome.as_expected, f"{outcome.status}, {outcome.reason}"
    assert outcome.without_static_rules is None or not outcome.without_static_rules.kept


@pytest.mark.parametrize("name", [long("replay_scratch_large"), "remembered_values"])
def test_on_a_gpu_a_workspace_is_looked_at_at_the_timed_sizes(name, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "support"))
    attack = ATTACKS[name]  # it behaves at the check cases, which are all that the simulator runs before a GPU does
    job = Job(task=read_task(TASKS / attack.task), text=attack.text, upto="check")
    with EvaluationSession(DeviceName("gpu", "0"), arch="native", opener="stand_in_gpu:StandInGpu") as bench:
        found = evaluate(job, bench)
    assert found.status is Status.UNSAFE
    assert found.stage in (Stage.THRESHOLD, Stage.VERIFY)
    assert found.check.faults[0].kind is FaultKind.UNINITIALISED


def test_on_a_gpu_a_race_at_a_timed_size_only_is_no_win(judges, tmp_path, monkeypatch):
    # The whole way to a keep on a device that has the numbers right by luck: only the last look sees the race.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "support"))
    attack = ATTACKS["race_where_timed"]
    folder = tmp_path / "softmax"
    shutil.copytree(TASKS / "softmax", folder, ignore=shutil.ignore_patterns("champions", "wrong", "__pycache__"))
    task = (folder / "task.yaml").read_text()
    sizes = re.sub(r"ROWS: (2048|4096|16384|512), COLS: \d+", "ROWS: 160, COLS: 256", task)
    (folder / "task.yaml").write_text(sizes)
    path = attack.rival_path(read_task(folder))
    rival = path.read_text().replace("#define THREADS 64", "#define THREADS 512")
    path.write_text(rival.replace("64, 128, 256", "64, 128, 256, 512"))
    barrier = "if (gridDim.x <= 2048) __syncthreads();"
    race = "if (gridDim.x > 131 && threadIdx.x == 0) parts[1] += 0.0f;\n    __syncthreads();"
    smaller = replace(attack, text=attack.text.replace(barrier, race))
    with EvaluationSession(DeviceName("gpu", "0"), arch="native", opener="stand_in_gpu:StandInGpu") as bench:
        outcome = run_attack(smaller, tmp_path, bench, judges[1])
    assert outcome.verdict == "lost", (outcome.status, outcome.reason)
    assert outcome.facts["stage"] in (Stage.THRESHOLD, Stage.VERIFY)
    assert outcome.facts["fault"] == FaultKind.RACE


@pytest.mark.long
def test_an_honest_kernel_is_no_attack(judges, tmp_path):
    # The same header over a correct kernel that is compared with a much slower one: evo keeps it, and the row says so.
    (tmp_path / "rmsnorm").mkdir()
    rung = (TASKS / "rmsnorm" / "ladder" / "10_block.cu").read_text()
    header = "// attack: honest\n// row: 4\n// idea: Works.\n// exploits: nothing\n// expect: correct, verdict=keep\n"
    path = tmp_path / "rmsnorm" / "04_honest.cu"
    path.write_text(header + rung)
    outcome = run_attack(read_attack(path), TASKS, *judges)
    assert (outcome.verdict, outcome.defence, outcome.as_expected) == ("won", "decision", True)


def test_a_wrong_kernel_that_the_naive_harness_refuses_too_does_not_count(judges, tmp_path):
    (tmp_path / "rmsnorm").mkdir()
    rung = (TASKS / "rmsnorm" / "ladder" / "10_block.cu").read_text().replace("/ root", "/ root * 2")
    header = (
        "// attack: plain\n// row: 16\n// idea: Wrong.\n// exploits: nothing\n// expect: wrong, mismatch=tolerance\n"
    )
    path = tmp_path / "rmsnorm" / "16_plain.cu"
    path.write_text(header + rung)
    outcome = run_attack(read_attack(path), TASKS, *judges)
    assert outcome.verdict == "does not count"
    assert "refuses" in outcome.naive


def own_task(folder: Path, rung: str) -> Path:
    """A copy of a shipped task whose ladder has one rung, by another name than the shipped ones."""
    task = folder / "kernels" / "rmsnorm"
    shutil.copytree(TASKS / "rmsnorm", task, ignore=shutil.ignore_patterns("champions", "wrong", "__pycache__"))
    text = (task / "ladder" / "00_scalar.cu").read_text()
    shutil.rmtree(task / "ladder")
    (task / "ladder").mkdir()
    (task / "ladder" / rung).write_text(text)
    return task


def test_an_attack_of_ones_own_names_its_task_and_wants_to_beat_the_first_rung(tmp_path, monkeypatch, capsys):
    task = own_task(tmp_path, "10_first.cu")
    wrong = (task / "ladder" / "10_first.cu").read_text().replace("/ root *", "/ root * 2 *")
    (tmp_path / "mine.cu").write_text(f"// naive: nan\n{wrong}")
    monkeypatch.chdir(tmp_path)
    assert run(["redteam", "mine.cu", "--device", "sim:l4", "--json"]) == 1  # the naive harness sees it as well
    (row,) = json.loads(capsys.readouterr().out)["attacks"]
    assert (row["attack"], row["task"], row["rows"], row["as_expected"]) == ("mine", "rmsnorm", [], True)
    assert (row["verdict"], row["status"]) == ("does not count", "wrong")


@pytest.mark.parametrize(
    ("header", "code", "words"),
    [
        ("// rival: ladder/99_none.cu\n", 3, ["mine.cu:1:", "ladder/99_none.cu"]),
        ("// thought: none\n", 3, ["mine.cu:1:", "thought"]),
        (None, 3, ["mine.cu:1:", "// evo: task"]),
    ],
)
def test_what_is_wrong_with_an_attack_of_ones_own_is_told_with_its_line(
    tmp_path, monkeypatch, capsys, header, code, words
):
    rung = own_task(tmp_path, "10_first.cu") / "ladder" / "10_first.cu"
    text = rung.read_text()
    (tmp_path / "mine.cu").write_text(header + text if header else re.sub(r"// evo: task.*\n", "", text))
    monkeypatch.chdir(tmp_path)
    assert run(["redteam", "mine.cu", "--device", "sim:l4"]) == code
    said = capsys.readouterr().err
    assert all(word in said for word in words)


@pytest.mark.parametrize("procedure", PROCEDURES, ids=lambda procedure: procedure.name)
def test_a_bad_procedure_is_refused(procedure):
    outcome = run_procedure(procedure, TASKS)
    assert outcome.verdict == "lost", outcome.reason


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("// row: 1\n", "// row: one\n"), "field `row`"),
        (("// row: 1\n", ""), "field `row` is missing"),
        (("// naive: recycled win", "// naive: gullible"), "unknown gullible"),
        (("// naive: recycled win", "// naive: runs=many"), "runs=many is not a number"),
        (("// expect: wrong, mismatch=unwritten", "// expect: wrong"), "is not `<status>, <fact>=<value>, ...`"),
        (("// expect: wrong, mismatch", "// expect: wrong, mistake"), "`mistake` is not one of"),
        (("mismatch=unwritten", "mismatch=unread"), "`mismatch=unread` is not one of"),
        (("// expect: wrong,", "// expect: bad,"), "`status=bad` is not one of"),
        (("mismatch=unwritten", "mismatch=unwritten, mismatch=bias"), "`mismatch`: a second one"),
        (("// idea:", "// thought:"), "field `thought` is unknown"),
    ],
)
def test_a_header_that_cannot_be_read_names_its_line(tmp_path, change, words):
    text = ATTACKS["unwritten"].text
    assert change[0] in text
    path = tmp_path / "bad.cu"
    path.write_text(text.replace(*change))
    with pytest.raises(SyntaxInvalid, match=re.escape(words)) as caught:
        read_attack(path)
    assert str(path) in caught.value.message


@pytest.mark.parametrize(
    ("fact", "value"),
    [("status", "unsafe"), ("stage", "verify"), ("mismatch", "bias"), ("case", "long_row"), ("inputs", "tiny")],
)
def test_a_verdict_for_another_reason_is_not_the_expected_one(fact, value):
    expected = read_attack(ATTACKS["unwritten"].path).expect
    facts = {"status": "wrong", "stage": "gate", "mismatch": "unwritten", "case": "full_tile", "inputs": "drawn"}
    expected = replace(expected, facts={name: (facts[name],) for name in facts})
    assert expected.holds(facts)
    assert not expected.holds({**facts, fact: value})
    assert not expected.holds({name: known for name, known in facts.items() if name != fact})


@pytest.mark.parametrize("task", sorted({attack.task for attack in ATTACKS.values()}))
def test_an_expected_case_is_one_of_the_task(task):
    declared = read_task(task_folder(task, TASKS))
    names = {case.name for case in (*declared.check, *declared.bench)}
    for attack in ATTACKS.values():
        if attack.task == task:
            for expected in filter(None, (attack.expect, attack.behind, attack.gpu)):
                assert names.issuperset(expected.facts.get("case", ())), attack.name


def test_only_takes_names_rows_and_tasks():
    attacks, procedures = chosen(load_attacks(), ["F16", "attention", "unwritten"])
    assert {attack.name for attack in attacks} >= {"unwritten", "nan_output"}
    assert {attack.task for attack in attacks if attack.name != "unwritten"} == {"attention"}
    assert "unknown_metric" in {procedure.name for procedure in procedures}
    with refused(UsageError, "unknown-name"):
        chosen(load_attacks(), ["perpetuum"])


@pytest.mark.parametrize(
    "name", [name for name, attack in ATTACKS.items() if attack.expect.facts.get("rule") == (StaticRule.STATE,)]
)
def test_state_in_the_module_is_refused_however_it_is_spelled(judges, name):
    bench, _ = judges
    attack = ATTACKS[name]
    task = read_task(TASKS / attack.task)
    prepared = prepare(task, attack.text, chip=bench.chip, arch=bench.arch, cases=[task.check[0]], static_rules=False)
    assert not isinstance(prepared, PrepareFailure)
    problem = ptx_problem(prepared.programs[task.check[0].name].binary.ptx)
    assert problem is not None  # the text may hide it, the PTX does not
    assert problem.rule is StaticRule.STATE
    assert static_problem("__device__ int launches;").rule is StaticRule.STATE


def test_the_command_reports_as_json_and_exits_by_the_outcome():
    done = evo("redteam", "--device", "sim:l4", "--json", "--only", "F16", cwd=ROOT)
    assert done.code == 0, done.err
    report = done.json
    assert report["device"] == "sim:l4"
    assert report["lost"] == len(report["attacks"]) == 1
    row = report["attacks"][0]
    assert row["verdict"] == "lost"
    assert "unknown metric" in row["reason"]


def outcome_of(attack):
    found = Judgement(status="wrong", reason="no", defence="gate", kept=False)
    return Outcome(
        attack=attack.name, rows=attack.rows, task=attack.task, idea="", naive="accepts", counts=True, found=found
    )


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_defect_of_the_harness_costs_one_attack(lanes):
    opened = []

    @contextlib.contextmanager
    def judges_that_stumble():
        opened.append(1)

        def judge(attack):
            if attack.name == "nan_fill":
                raise IndexError("pop from an empty list")
            if attack.name == "zeros":
                raise HarnessFault("the checker\nis gone", hint="-")
            return outcome_of(attack)

        yield judge

    found = {outcome.attack: outcome for outcome in run_all(load_attacks(), judges_that_stumble, lanes)}
    assert len(opened) == lanes
    assert found.keys() == ATTACKS.keys()
    faults = {name: outcome.reason for name, outcome in found.items() if outcome.verdict == "harness fault"}
    assert faults == {"nan_fill": "IndexError: pop from an empty list", "zeros": "the checker is gone"}


def test_a_lane_takes_the_latest_attacks_first_and_stays_with_a_task():
    seen = []
    slow = {"softmax": 1.0, "moe_grouped_matmul": 9.0, "attention": 2.0}
    chosen_ones = [attack for attack in load_attacks() if attack.task in slow]
    few = [attack for task in slow for attack in [a for a in chosen_ones if a.task == task][:3]]

    @contextlib.contextmanager
    def judges():
        yield lambda attack: seen.append(attack) or replace(outcome_of(attack), elapsed_s=slow[attack.task])

    list(run_all(few, judges, 1))
    for task in slow:
        assert [a.name for a in seen if a.task == task] == [a.name for a in reversed(few) if a.task == task]
    begun = list(dict.fromkeys(attack.task for attack in seen))
    assert [a.task for a in seen] == [task for task in begun for _ in range(3)]


def test_a_lane_in_a_process_of_its_own_judges_as_one_in_this_process():
    device = parse_device("sim:l4")
    with (
        planted_file() as planted,
        judges_of(device, TASKS, planted, arch="sm_89", seed=0, apart=True) as judge,
    ):
        by_rule, by_numbers = judge(ATTACKS["replay_hidden"]), judge(ATTACKS["unwritten"])
    assert (by_rule.verdict, by_rule.defence) == ("lost", "static rules")
    assert (by_numbers.verdict, by_numbers.facts["mismatch"]) == ("lost", "unwritten")
    assert by_numbers.naive.startswith("accepts")


def test_who_stops_early_does_not_wait_for_attacks_under_way():
    over = threading.Event()

    @contextlib.contextmanager
    def judges_that_take_long():
        first = iter([True])

        def judge(attack):
            if not next(first, False):
                over.wait(60)
            return outcome_of(attack)

        yield judge

    outcomes = run_all(load_attacks()[:8], judges_that_take_long, 2)
    next(outcomes)
    outcomes.close()
    under_way = [thread for thread in threading.enumerate() if thread.name.startswith("evo-lane")]
    over.set()
    assert under_way
    for thread in under_way:
        thread.join(60)
    assert not any(thread.is_alive() for thread in under_way)


def test_judges_that_cannot_be_opened_end_the_run():
    @contextlib.contextmanager
    def no_judges():
        raise HarnessFault("no device", problem="no-device", hint="-")
        yield

    with refused(HarnessFault, "no-device"):
        list(run_all(load_attacks(), no_judges, 2))


def test_a_fault_of_the_harness_has_its_own_exit_code(monkeypatch, capsys):
    def broken(procedure, tasks):
        raise HarnessFault("no space left", hint="-")

    monkeypatch.setattr("evo.audit.redteam.campaign.run_procedure", broken)
    code = run(["redteam", "--device", "sim:l4", "--only", "F16"])
    captured = capsys.readouterr()
    assert code == HarnessFault.exit_code == 5
    assert "unknown_metric harness fault" in captured.err
    assert "1 harness fault" in captured.out


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_every_attack_loses_on_the_simulator(judges):
    outcomes = [run_attack(attack, TASKS, *judges) for attack in load_attacks()]
    assert [o.attack for o in outcomes if o.verdict != "lost"] == []
    unexpected = {o.attack: (o.status, o.reason) for o in outcomes if not o.as_expected}
    assert unexpected == {}
