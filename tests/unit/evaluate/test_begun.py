"""Which options of a command have processes started before their command is imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from evo.evaluate import begun
from evo.spec.child_entries import DEVICE


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, ...]]:
    """What is started on a machine with a GPU."""
    (tmp_path / "nvidia0").touch()
    monkeypatch.setattr(begun, "Path", lambda _: tmp_path)
    found: list[tuple[str, ...]] = []
    monkeypatch.setattr(begun, "begin_forks", lambda modules, entries: None)
    monkeypatch.setattr(begun, "begin", lambda *words, soon: found.append(words))
    return found


@pytest.mark.parametrize(
    ("options", "which"),
    [
        ("softmax", "0"),
        ("", "0"),
        ("softmax --device gpu", "0"),
        ("mine.cu --device gpu:1 --seed 3", "1"),
        ("--device=gpu:2 mine.cu", "2"),
        ("softmax --device sim:l4", None),
        ("softmax --cluster processes:2 --device gpu:0", None),
        ("--help", None),
        ("softmax --device", None),
        ("softmax --device tpu:0", None),
    ],
)
def test_a_gpu_is_opened_early_where_the_command_will(
    options: str, which: str | None, started: list[tuple[str, ...]]
) -> None:
    begun.begin_for(options.split())
    assert [words[:3] for words in started] == ([] if which is None else [(DEVICE, "gpu", which)])


def test_nothing_is_started_on_a_machine_without_one(
    started: list[tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvidia0").unlink()
    begun.begin_for(["softmax"])
    assert started == []


def test_what_cannot_be_started_is_told_later(started: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(begun, "begin_forks", refused)
    begun.begin_for(["softmax"])
    assert started == []
