from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_samples import DATE, RUN, record, text_of
from refusals import refused

from evo import files as disk
from evo.errors import HarnessFault, RecordCorrupt, UsageError
from evo.records import leaderboard
from evo.records.trials import (
    DiffMismatch,
    Record,
    RunFile,
    apply_diff,
    effect,
    find,
    kept_message,
    load_records,
    make_diff,
    rebuild_parent_text,
    rebuild_rival_text,
    rebuild_text,
    run_file,
    run_id,
)
from evo.results import Verdict
from evo.spec.variant import variant_id

ROOT = Path(__file__).parents[3]


def saved(root: Path, *trials: Record) -> Path:
    runs = RunFile(root, trials[0].task, trials[0].run)
    for trial in trials:
        runs.append(trial)
    return runs.path


# --- records --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loaded", ["sim", "cubin"])
@pytest.mark.parametrize("verdict", [Verdict.KEEP, Verdict.REVERT, None])
def test_a_record_survives_json(verdict: Verdict | None, loaded: str) -> None:
    trial = record(2, parent=text_of(1), verdict=verdict, loaded=loaded, arguments={"rule": "unroll", "to": 4})
    assert Record.from_line(trial.to_line(), where="x:1") == trial
    assert trial.to_line().count("\n") == 1
    assert trial.kept == (verdict is Verdict.KEEP)
    assert trial.timing == ("modelled" if loaded == "sim" else "measured")


def test_texts_of_every_kind_survive_a_line() -> None:
    trial = record(1, parent=None, text="a\r\nb\u2028c\x0b\x85µ\n", summary="half \ud800 a pair")
    assert Record.from_line(trial.to_line().encode("utf-8"), where="x:1") == trial


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"extra": 1}, "field `extra`: unknown"),
        ({"version": 2}, "field `version`: 2, expected 1"),
        ({"version": True}, "field `version`"),
        ({"number": "7"}, "field `number`"),
        ({"number": True}, "field `number`"),
        ({"number": 8}, "field `trial`"),
        ({"elapsed_s": -1}, "field `elapsed_s`"),
        ({"summary": 3}, "field `summary`"),
        ({"kind": "guess"}, "field `kind`"),
        ({"parent": None}, "field `parent`"),
        ({"date": "yesterday"}, "field `date`"),
        ({"date": "2026-01-01T09:30:00"}, "field `date`"),
        ({"run": "x"}, "field `run`"),
        ({"task": "../x"}, "field `task`"),
        ({"arguments": []}, "field `arguments`"),
    ],
)
def test_an_ill_typed_field_is_refused_by_name_file_and_line(change: dict[str, object], says: str) -> None:
    data = {**record(7, parent=text_of(1)).to_json(), **change}
    with pytest.raises(RecordCorrupt, match=r"^runs/a\.jsonl:3: ") as caught:
        Record.from_line(json.dumps(data), where="runs/a.jsonl:3")
    assert says in caught.value.message
    assert caught.value.hint
    assert ("upgrade evo" in caught.value.hint) is (not change.keys().isdisjoint({"extra", "version"}))


WARM = {"p50_us": 1, "p90_us": 1, "p99_us": 1, "mean_us": 1, "std_us": 0, "samples": 1}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"status": "fine"}, "evaluation.status"),
        ({"colour": 1}, "evaluation.colour`: unknown"),
        ({"environment": {}}, "evaluation.environment`"),
        ({"bench": {}}, "evaluation.bench`"),
        ({"bench": [{"name": "b2", "warm": {"p50_us": 1}}]}, "evaluation.bench[0].warm`"),
        ({"bench": [{"name": "b2", "warm": WARM}]}, "evaluation.bench"),
        ({"bench": [{"name": "b2"}]}, "evaluation.bench[0]"),
        ({"bench": [{"name": "b2", "modelled_us": 1.0}]}, "evaluation.bench[0]"),
        ({"bench": [{"name": "b2", "modelled_us": True, "model_version": "1"}]}, "evaluation.bench[0].modelled_us`"),
        ({"decision": {"verdict": "maybe", "reason": "x"}}, "evaluation.decision.verdict`"),
        ({"decision": {"verdict": "keep", "reason": "x", "gain": {"ratio": "1"}}}, "evaluation.decision.gain.ratio`"),
        ({"status": "wrong"}, "carries no bench figures"),
    ],
)
def test_an_ill_typed_evaluation_is_refused_by_name(change: dict[str, object], says: str) -> None:
    data = record(2, parent=text_of(1)).to_json()
    data["evaluation"] = {**data["evaluation"], **change}  # type: ignore[dict-item,arg-type]
    with pytest.raises(RecordCorrupt, match=r"^x:1: field `evaluation") as caught:
        Record.from_line(json.dumps(data), where="x:1")
    assert says in caught.value.message


@pytest.mark.parametrize("line", ["", "[]", "{", '{"a": NaN}', '{"a": 1e999}', '{"a": 1, "a": 2}', "[" * 100_000])
def test_a_line_that_is_no_record_is_refused(line: str) -> None:
    with pytest.raises(RecordCorrupt, match=r"^f:9: "):
        Record.from_line(line, where="f:9")


def test_numbers_that_do_not_exist_are_never_written() -> None:
    with pytest.raises(ValueError, match="JSON"):
        record(2, parent=text_of(1), arguments={"x": float("nan")}).to_line()


def test_run_ids_sort_by_time() -> None:
    first = run_id(datetime(2026, 1, 1, 9, 30, tzinfo=UTC), "ab12")
    assert first == RUN < run_id(datetime(2026, 1, 1, 9, 31, tzinfo=UTC), "aaaa")
    with pytest.raises(ValueError, match="digits"):
        run_id(datetime(2026, 1, 1, tzinfo=UTC), "A/")


def test_the_message_of_a_kept_trial_says_what_why_and_how_much() -> None:
    trial = record(2, parent=text_of(1), loaded="cubin", ratio=1.31)
    message = kept_message(trial)
    assert message.splitlines()[0] == "attention: unroll the loop 2 times"
    assert "fewer branches" in message
    assert "Effect: 1.310x measured on l4, 95 % interval 1.260x to 1.360x" in " ".join(message.split())
    assert "modelled on sim-l4" in effect(record(2, parent=text_of(1)))
    named = record(2, parent=text_of(1), summary="attention: 8 lanes have a slice each")  # the function's own name
    assert kept_message(named).splitlines()[0] == "attention: 8 lanes have a slice each"


# --- files ----------------------------------------------------------------------------------------------------------


def test_records_are_read_back_in_order(tmp_path: Path) -> None:
    later = "20260102T000000-aaaa"
    saved(tmp_path, record(1, parent=None, run=later))
    saved(tmp_path, record(1, parent=None), record(2, parent=text_of(1)))
    saved(tmp_path, record(1, parent=None, task="zeta"))
    assert [trial.trial for trial in load_records(tmp_path, "attention")] == [
        f"{RUN}-0001",
        f"{RUN}-0002",
        f"{later}-0001",
    ]
    assert len(load_records(tmp_path)) == 4
    assert load_records(tmp_path, "unknown") == []


def test_a_run_takes_only_its_next_trial(tmp_path: Path) -> None:
    saved(tmp_path, record(1, parent=None))
    runs = RunFile(tmp_path, "attention", RUN)
    assert runs.next_trial == f"{RUN}-0002"
    for wrong in (record(1, parent=None), record(3, parent=text_of(1)), record(2, parent=None, task="other")):
        with pytest.raises(ValueError, match="not the next one"):
            runs.append(wrong)


def test_a_corrupt_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = saved(tmp_path, record(1, parent=None), record(2, parent=text_of(1)), record(3, parent=text_of(1)))
    lines = path.read_bytes().split(b"\n")
    lines[1] = lines[1][:50]
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(RecordCorrupt, match=rf"{RUN}\.jsonl:2: "):
        load_records(tmp_path)


def test_a_missing_or_doubled_trial_is_named(tmp_path: Path) -> None:
    path = saved(tmp_path, record(1, parent=None), record(2, parent=text_of(1)), record(3, parent=text_of(1)))
    one, two, three, _ = path.read_bytes().split(b"\n")
    for lines in ([one, three], [one, two, two]):
        path.write_bytes(b"\n".join([*lines, b""]))
        with refused(RecordCorrupt, "out-of-place"):
            load_records(tmp_path)


@pytest.mark.parametrize("cut", [1, 2, 40, 500])
def test_a_torn_last_line_is_mended_and_nothing_else_is_lost(tmp_path: Path, cut: int) -> None:
    path = saved(tmp_path, record(1, parent=None), record(2, parent=text_of(1)))
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    readable = len(load_records(tmp_path))  # a reader beside a writer sees whole lines only
    torn = disk.mend_tail(path)
    if cut == 1:
        assert torn == b""
        assert path.read_bytes() == whole
    else:
        assert readable == 1
        assert path.read_bytes() + (torn or b"") == whole[:-cut]
        assert [trial.number for trial in load_records(tmp_path)] == [1]
    assert disk.mend_tail(path) is None


def test_a_last_line_of_rubbish_is_torn(tmp_path: Path) -> None:
    path = saved(tmp_path, record(1, parent=None))
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0" * 64 + b"\n")
    with pytest.raises(RecordCorrupt, match="jsonl:2"):
        load_records(tmp_path)
    assert disk.mend_tail(path) == b"\0" * 64 + b"\n"
    assert path.read_bytes() == whole


@pytest.mark.parametrize("broken", ["write", "fsync"])
def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    path = saved(tmp_path, record(1, parent=None))
    before = path.read_bytes()
    real = disk.os.write

    def full(descriptor: int, data: bytes = b"") -> int:
        if broken == "write" and len(data) > 1:
            return real(descriptor, data[: len(data) // 2])  # half goes in, then nothing does
        raise OSError(28, "No space left on device")

    runs = RunFile(tmp_path, "attention", RUN)
    with monkeypatch.context() as patch:
        patch.setattr(disk.os, broken, full)
        with refused(HarnessFault, "ENOSPC") as caught:
            runs.append(record(2, parent=text_of(1)))
        with pytest.raises(HarnessFault):
            disk.write_atomic(path, b"other")
    assert caught.value.exit_code == 5
    assert "space" in caught.value.hint
    assert path.read_bytes() == before
    assert sorted(path.parent.iterdir()) == [path]
    runs.append(record(2, parent=text_of(1)))
    assert len(load_records(tmp_path)) == 2


# --- finding --------------------------------------------------------------------------------------------------------


def test_find_by_trial_or_variant_prefix(tmp_path: Path) -> None:
    one, two = record(1, parent=None), record(2, parent=text_of(1))
    again = record(3, parent=text_of(1), text=text_of(2), verdict=None)
    saved(tmp_path, one, two, again)
    assert find(tmp_path, f"{RUN}-0002") == two
    assert find(tmp_path, one.variant[:8]) == one
    assert find(tmp_path, two.variant) == two  # the kept trial of two of this variant
    with refused(UsageError, "ambiguous"):
        find(tmp_path, RUN)
    for unknown in ("", "zz"):
        with pytest.raises(UsageError):
            find(tmp_path, unknown)


# --- diffs ----------------------------------------------------------------------------------------------------------

ODD = ["a\n", "b\n", "", "a", "\r\n", "x\ry\n", "µ\u2028é\x0c\n", "\\ No newline\n", "--- a\n", "\n"]
LINES = st.lists(st.sampled_from(ODD), max_size=30)


@settings(max_examples=300, deadline=None)
@given(LINES, LINES)
def test_a_diff_rebuilds_its_text_byte_for_byte(old: list[str], new: list[str]) -> None:
    parent, text = "".join(old), "".join(new)
    diff = make_diff(parent, text)
    assert apply_diff(parent, diff) == text
    if parent != text:
        with pytest.raises(DiffMismatch):
            apply_diff(parent + "x", diff)


def test_a_long_text_with_edits_is_rebuilt() -> None:
    rng = random.Random(0)
    lines = [f"line {number % 17}\n" for number in range(1500)]
    edited = list(lines)
    for _ in range(40):
        at = rng.randrange(len(edited))
        edited[at : at + rng.randrange(3)] = [f"new {rng.random()}\n"] * rng.randrange(3)
    assert apply_diff("".join(lines), make_diff("".join(lines), "".join(edited))) == "".join(edited)


def test_a_damaged_diff_is_refused_whatever_the_damage() -> None:
    parent = "".join(f"line {number}\n" for number in range(30))
    text = parent.replace("line 7\n", "seven\n").replace("line 22\n", "")
    diff = make_diff(parent, text)
    rng = random.Random(1)
    for _ in range(300):
        at = rng.randrange(len(diff))
        damaged = diff[:at] + rng.choice(["", "x", "\n", "+", "-", " "]) + diff[at + 1 :]
        try:
            assert apply_diff(parent, damaged) == text  # damage that changes nothing, as in a hunk's line number
        except DiffMismatch:
            continue
    for cut in range(len(diff)):
        with pytest.raises(DiffMismatch):
            apply_diff(parent, diff[:cut])


# --- rebuilding -----------------------------------------------------------------------------------------------------


def test_every_text_is_rebuilt_from_the_chain(tmp_path: Path) -> None:
    texts = [text_of(1), text_of(2).replace("\n", "\r\n"), text_of(3) + "// µ no newline", text_of(4)]
    trials = [record(1, parent=None, text=texts[0])]
    trials += [record(n + 1, parent=texts[n - 1], text=texts[n]) for n in range(1, len(texts))]
    saved(tmp_path, *trials)
    records = load_records(tmp_path)
    assert [rebuild_text(records, trial.trial) for trial in records] == texts
    with pytest.raises(UsageError):
        rebuild_text(records, "nope")


def test_parents_that_differ_in_comments_only_are_told_apart() -> None:
    plain, remarked = text_of(1), text_of(1) + "// the same code\n"
    trials = [
        record(1, parent=None, text=plain),
        record(2, parent=plain, text=text_of(2)),
        record(3, parent=text_of(2), text=remarked),
        record(4, parent=plain, text=text_of(4)),
        record(5, parent=remarked, text=text_of(4) + "// too\n"),
    ]
    assert trials[0].variant == trials[2].variant
    assert rebuild_text(trials, trials[3].trial) == text_of(4)
    assert rebuild_text(trials, trials[4].trial) == text_of(4) + "// too\n"
    assert [rebuild_parent_text(trials, trial.trial) for trial in trials] == [None, plain, text_of(2), plain, remarked]


def test_a_trial_of_another_line_is_held_against_the_champion_again() -> None:
    trials = [
        record(1, parent=None, text=text_of(1)),
        record(2, parent=text_of(1), text=text_of(2)),
        replace(record(3, parent=text_of(1), text=text_of(3)), arguments={"rival": variant_id(text_of(2))}),
    ]
    assert [rebuild_rival_text(trials, trial.trial) for trial in trials] == [None, text_of(1), text_of(2)]
    with refused(RecordCorrupt, "rival-unknown"):
        rebuild_rival_text([trials[0], trials[2]], trials[2].trial)


def test_a_long_chain_needs_no_recursion() -> None:
    trials = [record(1, parent=None)] + [record(n, parent=text_of(n - 1)) for n in range(2, 1500)]
    assert rebuild_text(trials, trials[-1].trial) == text_of(1499)


def test_a_broken_chain_says_where() -> None:
    one, two = record(1, parent=None), record(2, parent=text_of(1))
    with pytest.raises(RecordCorrupt, match=f"{two.trial}: cannot be rebuilt: its parent {one.variant}"):
        rebuild_text([two], two.trial)
    forged = Record(**{**{name: getattr(two, name) for name in two.__dataclass_fields__}, "variant": "0" * 12})
    with refused(RecordCorrupt, "chain-broken"):
        rebuild_text([one, forged], forged.trial)


def test_where_records_are(tmp_path: Path) -> None:
    assert run_file(tmp_path, "attention", RUN) == tmp_path / "population" / "attention" / "runs" / f"{RUN}.jsonl"
    assert DATE.endswith("+00:00")


# --- what is shipped ------------------------------------------------------------------------------------------------

SHIPPED = [
    pytest.param(path, number, line, id=f"{path.stem}-{number:04}")
    for path in sorted((ROOT / "population").glob("*/runs/*.jsonl"))
    for number, line in enumerate(path.read_bytes().splitlines(), start=1)
]


@pytest.mark.parametrize(("path", "number", "line"), SHIPPED)
def test_every_shipped_record_is_read_and_nothing_of_it_is_lost(path: Path, number: int, line: bytes) -> None:
    """Those of the first version too, which have no seed, no code hash and no stages."""
    trial = Record.from_line(line, where=f"{path}:{number}")
    written, before = trial.to_json(), json.loads(line)
    for cases in (written["evaluation"].get("bench", []), before["evaluation"].get("bench", [])):  # type: ignore[union-attr]
        for case in cases:  # type: ignore[union-attr]
            for timing in ("warm", "cold"):
                case.get(timing, {}).pop("unsteady", None)  # type: ignore[union-attr]  # the first version had no such flag
    assert written == before
    assert Record.from_line(trial.to_line(), where="x") == trial


def test_the_shipped_leaderboard_is_what_the_shipped_records_give() -> None:
    board = leaderboard.load(ROOT)
    commits = {(entry.variant, entry.date): entry.commit for entry in board.entries if entry.commit}
    records = load_records(ROOT)
    known = {r.trial: commits[r.variant, r.date] for r in records if r.kept and (r.variant, r.date) in commits}
    assert leaderboard.render(records, known) == (ROOT / "leaderboard.json").read_text()
    assert leaderboard.dump(board) == (ROOT / "leaderboard.json").read_text()
