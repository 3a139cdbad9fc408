"""Files that a person gives: what is read as text, and what is said of those that are none."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals import refused

from evo.errors import SyntaxInvalid
from evo.spec.source_text import read_source
from evo.spec.variant import read_variant


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_a_comment_in_another_encoding_is_read(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.cu").write_bytes("// Mittelwert über café\nint x;\n".encode(encoding))
    assert read_source(tmp_path / "a.cu") == "// Mittelwert über café\nint x;\n"


def test_a_variant_with_a_comment_in_latin_1_is_read(tmp_path: Path) -> None:
    text = "// Größe\n// evo: task t\n// evo: launch k grid (1) block (32)\nvoid k();\n"
    (tmp_path / "a.cu").write_bytes(text.encode("latin-1"))
    assert read_variant(tmp_path / "a.cu").text == text


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x7fELF\x02\x01\x01\0\0", "a program"),
        (b"abc\0\1\2def", "is a binary file"),
        (b"int a;\nint\0 b;\n", "a.cu:2: holds a control character (byte 0)"),
    ],
)
def test_a_binary_is_called_one(tmp_path: Path, data: bytes, words: str) -> None:
    (tmp_path / "a.cu").write_bytes(data)
    with refused(SyntaxInvalid, "binary") as caught:
        read_source(tmp_path / "a.cu")
    assert words in caught.value.message
    assert "codec" not in caught.value.message


def test_a_folder_is_called_one_and_its_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "mine.cu").touch()
    with refused(SyntaxInvalid, "a-folder") as caught:
        read_source(tmp_path)
    assert "mine.cu" in caught.value.hint
    with refused(SyntaxInvalid, "no-file"):
        read_source(tmp_path / "other.cu")
