"""The user's cache: where it is, what it forgets first, and that neither damage nor a full disk is a failure."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from evo.cuda.compile import default_cache
from evo.errors import HarnessFault
from evo.files import CacheFolder, cache_folder, cache_limit, copy_folder, write_atomic
from evo.sim import jit


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"EVO_CACHE": "/big/disk", "XDG_CACHE_HOME": "/xdg", "HOME": "/users/me"}, "/big/disk/NAME"),
        ({"XDG_CACHE_HOME": "/xdg", "HOME": "/users/me"}, "/xdg/evo/NAME"),
        ({"EVO_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/users/me"}, "/users/me/.cache/evo/NAME"),
    ],
)
def test_every_cache_follows_the_same_variables(
    variables: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("EVO_CACHE", "XDG_CACHE_HOME", "EVO_CACHE_LIMIT_MB"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder("chips") == Path(folder.replace("NAME", "chips"))
    assert default_cache().folder == Path(folder.replace("NAME", "compile"))
    assert jit.cache_of(None).folder == Path(folder.replace("NAME", "sim"))
    assert (default_cache().limit_bytes, jit.cache_of(None).limit_bytes) == (2 * 2**30, 4 * 2**30)
    monkeypatch.setenv("EVO_CACHE_LIMIT_MB", "300")
    assert default_cache().limit_bytes == jit.cache_of(None).limit_bytes == cache_limit(7) == 300 * 2**20


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    for name in ("EVO_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert cache_folder("sim") is None
    cache = jit.cache_of(None)
    cache.keep("ab/one.o", b"code")
    assert (cache.read("ab/one.o"), cache.trim()) == (None, 0)


def test_damage_counts_as_missing(tmp_path: Path) -> None:
    cache = CacheFolder(tmp_path, 1000)
    cache.keep("ab/one", b"code")
    assert cache.read("ab/one") == b"code"
    path = tmp_path / "ab" / "one"
    whole = path.read_bytes()
    for damaged in (b"", whole[:31], whole[:-1], whole[:-1] + b"x", whole + b"x"):
        path.write_bytes(damaged)
        assert cache.read("ab/one") is None
    cache.keep("empty", b"")
    assert cache.read("empty") == b""


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    cache = CacheFolder(tmp_path, 10_000)
    for number in range(10):
        cache.keep(f"{number % 3}/{number}", bytes(968))
        os.utime(tmp_path / f"{number % 3}" / f"{number}", (number, number))
    for name, age in (("old", 0.0), ("new", None)):
        (tmp_path / f".writing-{name}").write_bytes(b"x")
        os.utime(tmp_path / f".writing-{name}", None if age is None else (age, age))
    assert CacheFolder(tmp_path, 10_000).trim() == 10_000  # at the limit, not beyond
    assert cache.read("0/0") is not None  # used now
    assert CacheFolder(tmp_path, 6_000).trim() == 4_000
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [".writing-new", "0", "7", "8", "9"]


def test_a_cache_that_is_filled_for_long_stays_near_its_limit(tmp_path: Path) -> None:
    cache = CacheFolder(tmp_path, 50_000)
    for number in range(1_000):
        cache.keep(f"{number}", number.to_bytes(968, "little"))
    held = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert held < 500_000
    assert cache.read("999") is not None


def test_a_disk_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    cache = CacheFolder(tmp_path / "file", 1000)
    cache.keep("one", b"code")
    assert cache.read("one") is None
    for durable in (True, False):
        with pytest.raises(HarnessFault):
            write_atomic(tmp_path / "file" / "one", b"code", durable=durable)


def test_writers_at_the_same_time_leave_one_of_their_texts(tmp_path: Path) -> None:
    texts = [bytes([number]) * 100_000 for number in range(4)]
    path = tmp_path / "shared"
    threads = [
        threading.Thread(target=lambda text=text: [write_atomic(path, text, durable=False) for _ in range(25)])
        for text in texts
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert not path.exists() or path.read_bytes() in texts
    assert path.read_bytes() in texts
    assert [entry.name for entry in tmp_path.iterdir()] == ["shared"]


def test_a_temporary_file_that_another_program_takes_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `git stash -u` and `git clean` do between the writing and the renaming."""
    file, real, taken = tmp_path / "folder" / "file", os.replace, list[str]()

    def replace(old: Path, new: Path) -> None:
        if not taken:
            taken.append(str(old))
            old.unlink()
            old.parent.rmdir()
        real(old, new)

    monkeypatch.setattr(os, "replace", replace)
    write_atomic(file, b"whole")
    assert taken
    assert [path.name for path in file.parent.iterdir()] == ["file"]
    assert file.read_bytes() == b"whole"


def test_a_folder_is_copied_whole_or_what_was_there_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "made", tmp_path / "kernels" / "task"
    (source / "ladder").mkdir(parents=True)
    (source / "ladder" / "00.cu").write_text("a kernel")
    (source / "task.yaml").write_text("name: task")
    copy_folder(source, target)
    assert (target / "ladder" / "00.cu").read_text() == "a kernel"
    (source / "task.yaml").write_text("name: another")

    def full(path: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(HarnessFault) as fault:
        copy_folder(source, target)
    assert fault.value.problem == "ENOSPC"
    assert (target / "task.yaml").read_text() == "name: task"
    assert [path.name for path in target.parent.iterdir()] == ["task"]
