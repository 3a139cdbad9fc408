"""A child process: messages with deadlines, how it ended, and that nothing of it is left."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from process_ends import is_gone

from evo.errors import ChildDied, ChildGarbled
from evo.spec.child_process import ChildProcess, begin
from evo.spec.connection import Connection

ENTRIES = '''\
import os, signal, socket, subprocess, sys, time


def echo(connection, *words):
    connection.send(list(words))
    while True:
        connection.send(connection.receive())


def sleeper(connection):
    """Starts a process of its own, then is busy."""
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    connection.send([os.getpid(), started.pid])
    time.sleep(600)


def environment(connection):
    connection.send({**os.environ})


def broken(connection):
    raise ValueError("a bad day")


def silent(connection):
    time.sleep(600)


def rude(connection):
    socket.socket(fileno=os.dup(connection.fileno())).sendall(b"hello, world, how are you?")
    time.sleep(600)


def prints(connection):
    os.write(1, b"to stdout")
    sys.stderr.write("to stderr")
    connection.send("quiet")
    connection.receive()
'''


@pytest.fixture
def entries(tmp_path: Path) -> Path:
    file = tmp_path / "entries.py"
    file.write_text(ENTRIES)
    return file


@pytest.fixture
def start(entries: Path) -> Iterator[Callable[..., ChildProcess]]:
    made: list[ChildProcess] = []

    def starting(name: str, *arguments: str, plain: bool = False) -> ChildProcess:
        made.append(ChildProcess(f"{entries}:{name}", *arguments, plain=plain))
        return made[-1]

    yield starting
    for child in made:
        child.close()


Start = Callable[..., ChildProcess]


def soon() -> float:
    return time.monotonic() + 30.0


@pytest.mark.parametrize("plain", [False, True])
def test_messages_go_both_ways_and_arguments_arrive(start: Start, plain: bool) -> None:
    child = start("echo", "one", "two", plain=plain)
    assert child.receive(soon()) == ["one", "two"]
    for message in ({"a": [1, 2.5, None, True]}, "text", [], {"deep": {"er": {"bytes": b"\0\xff" * 1000, "no": b""}}}):
        assert child.ask(message, 30.0) == message


def test_a_child_that_has_begun_is_taken_over_once(start: Start, entries: Path) -> None:
    begin(f"{entries}:environment", "x")  # of other words: nobody takes it
    begin(f"{entries}:sleeper")
    begin(f"{entries}:sleeper")  # the same: no second one
    first, second = start("sleeper"), start("sleeper")
    told = [child.receive(time.monotonic() + 20) for child in (first, second)]
    assert [pid for pid, _ in told] == [first.pid, second.pid]  # type: ignore[misc]
    assert first.pid != second.pid


def test_a_child_that_ended_before_it_was_taken_over_is_replaced(start: Start, entries: Path) -> None:
    entry = f"{entries}:echo"
    begin(entry, "again")
    took = start("echo", "again")
    begin(entry, "again")
    ended = begun_pids(entry)
    os.kill(ended[-1], signal.SIGKILL)
    assert is_gone(ended[-1])
    fresh = start("echo", "again")
    assert fresh.pid not in (took.pid, ended[-1])
    assert fresh.receive(time.monotonic() + 20) == ["again"]


def begun_pids(entry: str) -> list[int]:
    """Of this process's children at the entry, in the order in which they were started."""
    found: list[tuple[int, int]] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (folder / "cmdline").exists():
            try:
                words = (folder / "cmdline").read_text().split("\0")
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if entry in words and int(fields[1]) == os.getpid():
                found.append((int(fields[19]), int(folder.name)))
    return [pid for _, pid in sorted(found)]


def test_arrays_travel_beside_the_pickle_and_arrive_writable(start: Start) -> None:
    child = start("echo")
    child.receive(soon())
    sent = {"x": np.arange(1 << 20), "y": np.ones((3, 4), np.float16)}
    got: Any = child.ask(sent, 60.0)
    for name, array in sent.items():
        np.testing.assert_array_equal(got[name], array)
        got[name][0] = 7


def test_a_plain_message_holds_data_only(start: Start) -> None:
    child = start("echo", plain=True)
    child.receive(soon())
    with pytest.raises(TypeError):
        child.ask({"an object": object()}, 30.0)


def test_a_deadline_ends_the_wait(start: Start) -> None:
    child = start("silent")
    with pytest.raises(TimeoutError):
        child.receive(time.monotonic() + 0.2)
    pid = child.pid
    child.close()
    assert is_gone(pid)


def test_how_a_child_ended_is_told(start: Start) -> None:
    with pytest.raises(ChildDied) as caught:
        start("broken").receive(soon())
    assert (caught.value.code, caught.value.tail) == (1, "ValueError: a bad day")
    assert caught.value.words == "exit code 1: ValueError: a bad day"
    child = start("echo")
    child.receive(soon())
    os.kill(child.pid, signal.SIGSEGV)
    with pytest.raises(ChildDied) as caught:
        child.ask("anyone?", 30.0)
    assert caught.value.code == -signal.SIGSEGV
    assert caught.value.words == "signal SIGSEGV"
    with pytest.raises(ChildDied, match="no_such_entry"):
        start("no_such_entry").receive(soon())


def test_bytes_that_are_no_message_are_told(start: Start) -> None:
    with pytest.raises(ChildGarbled):
        start("rude").receive(soon())


def test_stopping_from_another_thread_ends_a_wait(start: Start) -> None:
    child = start("silent")
    threading.Timer(0.2, child.stop).start()
    with pytest.raises(ChildDied) as caught:
        child.receive(soon())
    assert caught.value.code == -signal.SIGKILL
    assert not child.is_running


def test_a_child_takes_along_what_it_has_started(start: Start) -> None:
    child = start("sleeper")
    pids: Any = child.receive(soon())
    child.close()
    assert all(is_gone(pid) for pid in pids)


def test_a_child_that_is_let_go_ends(start: Start) -> None:
    child = start("sleeper")
    pids: Any = child.receive(soon())
    child.connection.close()  # as the end of the driver does
    assert all(is_gone(pid) for pid in pids)


def test_secrets_stay_here_and_output_goes_nowhere(
    start: Start, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EVO_TEST_TOKEN", "hush")
    monkeypatch.setenv("EVO_TEST_URL", "https://me:hush@host/")
    monkeypatch.setenv("EVO_TEST_PLAIN", "fine")
    seen: Any = start("environment").receive(soon())
    assert seen["EVO_TEST_PLAIN"] == "fine"
    assert "hush" not in str(seen)
    assert start("prints").receive(soon()) == "quiet"
    assert capfd.readouterr() == ("", "")


def test_a_fork_answers_hangs_or_dies_by_itself() -> None:
    def answering(connection: Connection) -> None:
        connection.send({"pid": os.getpid(), "bytes": b"\x01"})

    with closing(ChildProcess.fork(answering, plain=True)) as child:
        assert child.receive(soon()) == {"pid": child.pid, "bytes": b"\x01"}
    with closing(ChildProcess.fork(lambda _: time.sleep(600))) as child:
        with pytest.raises(TimeoutError):
            child.receive(time.monotonic() + 0.2)
        pid = child.pid
    assert is_gone(pid)
    with (
        closing(ChildProcess.fork(lambda _: os._exit(5))) as child,
        pytest.raises(ChildDied) as died,
    ):
        child.receive(soon())
    assert died.value.code == 5
