"""First looks on disk: written, read back, torn, damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from evo.errors import HarnessFault, RecordCorrupt
from evo.records.trials import FirstLook, add_looks, looks_file, read_looks

RUN = "20260101T093000-ab12"


def look(variant: str, ratio: float | None = None) -> FirstLook:
    return FirstLook(parent="a1", variant=variant, operator="rules.knob", summary="µ", ratio=ratio, elapsed_s=0.25)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return looks_file(tmp_path, "scale", RUN)


def test_they_are_read_back_as_written(path: Path) -> None:
    assert read_looks(path) == []
    add_looks(path, [look("b1", 1.5), look("b2")])
    add_looks(path, [])
    add_looks(path, [look("b3", 0.5), look("b1", 9.0)])  # of two at the same edit, the first
    found = read_looks(path)
    assert found == [look("b1", 1.5), look("b2"), look("b3", 0.5)]
    assert [each.lost for each in found] == [False, True, True]


def test_a_torn_last_line_is_left_out(path: Path) -> None:
    add_looks(path, [look("b1", 1.5), look("b2", 1.5)])
    path.write_bytes(path.read_bytes()[:-9])
    assert read_looks(path) == [look("b1", 1.5)]


def test_a_damaged_line_is_named(path: Path) -> None:
    add_looks(path, [look("b1", 1.5)])
    with path.open("a") as file:
        file.write('{"parent": 1}\n')
    with pytest.raises(RecordCorrupt) as caught:
        read_looks(path)
    assert f"{path}:2" in str(caught.value)


def test_a_folder_that_cannot_be_written_is_a_fault_of_the_harness(tmp_path: Path) -> None:
    (tmp_path / "population").write_text("in the way")
    with pytest.raises(HarnessFault):
        add_looks(looks_file(tmp_path, "scale", RUN), [look("b1")])
