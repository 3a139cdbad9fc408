"""Children that a server forks: they begin as programs would, and nothing of them outlives who asked for them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from process_ends import is_gone

from evo.spec import forked_child

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there children are programs of their own")

OPENED = """\
import os, signal, sys

import numpy


class Opened:
    def about(self):
        begun = os.environ.get("SET_LATER"), os.getcwd(), os.getppid() == os.getpgid(os.getppid())
        return [os.getpid(), os.getppid(), *begun, float(numpy.random.rand()), open("/proc/self/comm").read().strip()]

    def knows(self):
        begun = [f"/proc/{pid}/{name}" for pid in (os.getpid(), os.getppid()) for name in ("environ", "cmdline")]
        secret = any(word in open(place).read() for place in begun for word in ("hidden", "copied"))
        files = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
        return [secret, __file__ in files, signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, "here" in sys.path]

    def leave(self, code):
        os.write(2, b"a bad day")
        os._exit(code)


def open_it(device):
    return Opened()
"""
DRIVER = """\
import json, os, signal, sys, time

from evo.device import DeviceName
from evo.device.remote_calls import OpenedObject, RemoteCall
from evo.errors import ChildDied
from evo.evaluate.begun import FORKED, IMPORTED
from evo.spec import forked_child
from evo.spec.child_process import begin_forks

os.environ["OPENBLAS_NUM_THREADS"] = "1"
opener = sys.argv[1] + "/opened.py:open_it"
sys.path[0] = "here"
held = open(opener.partition(":")[0])
signal.signal(signal.SIGTERM, print)
begin_forks(IMPORTED, FORKED, copied=len(sys.argv) > 2)
os.environ["SET_LATER"] = "yes"
os.chdir(sys.argv[1])


def child():
    opened = OpenedObject(DeviceName("sim", "l4"), opener)
    opened.opened(60)
    return opened


def about(opened):
    return opened.call(RemoteCall("about"), 60).value


def death(opened, call=RemoteCall("about")):
    try:
        opened.call(call, 60)
    except ChildDied as died:
        return [died.code, died.words]


server = forked_child._SERVED.kept[0].pid
"""


BOTH = pytest.mark.parametrize("driven", [False, True], indirect=True, ids=["program", "copy"])


@pytest.fixture
def driven(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[str], Any]]:
    """Runs lines in a process that has a server of its own, a program or its copy; what it prints."""
    words = ["copied"] if getattr(request, "param", False) else []
    (tmp_path / "opened.py").write_text(OPENED)
    started: list[subprocess.Popen[str]] = []

    def run(lines: str) -> Any:
        command = [sys.executable, "-c", DRIVER + lines, str(tmp_path), *words]
        environment = {**os.environ, "MY_TOKEN": "hidden"}
        started.append(process := subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))
        assert process.stdout is not None
        return json.loads(process.stdout.readline())

    yield run
    for process in started:
        process.kill()
        process.communicate()


@BOTH
def test_a_fork_begins_as_a_program_does(driven: Callable[[str], Any], tmp_path: Path) -> None:
    server, first, second = driven("print(json.dumps([server, about(child()), about(child())]), flush=True)")
    assert first[0] != second[0]
    for _, parent, setting, folder, _, _, name in (first, second):
        assert (parent, setting, folder, name) == (server, "yes", str(tmp_path), "sim it")
    assert first[5] != second[5]  # not the same random numbers


@BOTH
def test_a_fork_has_no_secrets_files_handlers_or_paths_of_who_asked(driven: Callable[[str], Any]) -> None:
    found = driven("print(json.dumps(child().call(RemoteCall('knows'), 60).value), flush=True)")
    assert found == [False, False, True, False]


def test_how_a_fork_ended_is_told(driven: Callable[[str], Any]) -> None:
    left, killed = driven(
        "left = death(child(), RemoteCall('leave', (3,)))\n"
        "one = child(); os.kill(one.child.pid, signal.SIGKILL); one.child.reap()\n"
        "print(json.dumps([left, death(one)]), flush=True)"
    )
    assert left == [3, "exit code 3: a bad day"]
    assert killed[0] == -signal.SIGKILL


def test_without_the_server_children_are_programs(driven: Callable[[str], Any]) -> None:
    own, death, parent = driven(
        "one = child(); os.kill(server, signal.SIGKILL); os.waitpid(server, 0)\n"
        "while (gone := death(one)) is None: pass\n"
        "print(json.dumps([os.getpid(), gone, about(child())[1]]), flush=True)"
    )
    assert death[0] == -signal.SIGKILL
    assert parent == own


def test_other_settings_of_the_interpreter_take_a_program(driven: Callable[[str], Any]) -> None:
    own, parent = driven(
        "os.environ['OPENBLAS_NUM_THREADS'] = '3'\nprint(json.dumps([os.getpid(), about(child())[1]]), flush=True)"
    )
    assert parent == own


@BOTH
def test_nothing_is_left_of_a_driver_that_was_killed(driven: Callable[[str], Any]) -> None:
    own, server, place, pid = driven(
        "opened = child()\n"
        "print(json.dumps([os.getpid(), server, forked_child.server_place(), opened.child.pid]), flush=True)\n"
        "time.sleep(600)"
    )
    os.kill(own, signal.SIGKILL)
    assert is_gone(pid)
    assert is_gone(server)
    assert not Path(place).parent.exists()


def test_a_reference_that_was_stopped_does_not_outlive_its_driver(driven: Callable[[str], Any], tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text("def inputs(case, rng): pass\ndef expected(inputs, case): pass\n")
    own, pid = driven(
        "from pathlib import Path\n"
        "from evo.spec.reference_process import ReferenceProcess\n"
        "kept = ReferenceProcess(Path(sys.argv[1]) / 'reference.py'); pid = kept._child.pid\n"
        "os.kill(pid, signal.SIGSTOP)\n"
        "print(json.dumps([os.getpid(), pid]), flush=True)\n"
        "time.sleep(600)"
    )
    os.kill(own, signal.SIGKILL)
    assert is_gone(pid)


def test_a_child_whose_server_is_gone_before_it_forks(driven: Callable[[str], Any]) -> None:
    code = driven(
        "os.kill(server, signal.SIGSTOP)\n"
        "one = OpenedObject(DeviceName('sim', 'l4'), opener)\n"
        "os.kill(server, signal.SIGKILL)\n"
        "print(json.dumps(death(one)[0]), flush=True)"
    )
    assert code == -signal.SIGKILL


def test_a_suite_has_one_server() -> None:
    assert forked_child.server_place() == os.environ["EVO_TESTS_FORKS"]


WHILE_IT_IMPORTS = """\
import json, os, sys

from evo.spec.child_entries import DEVICE as ENTRY
from evo.spec.child_process import ChildProcess, begin, begin_forks

folder = sys.argv[1]
os.environ["PYTHONPATH"] = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
begin_forks(["evo.spec.child_main", "slow"], ["asked:serve"])
begin("asked:serve", "last")
begin("asked:serve", "first", soon=True)
first = ChildProcess("asked:serve", "first")
said = [first.ask("imported?", 60)]
open(folder + "/go", "w").close()
last = ChildProcess("asked:serve", "last")
said += [last.ask("imported?", 60)]
last.stop()
while last.is_running:
    pass
print(json.dumps([*said, first.is_running]), flush=True)
"""


def test_who_is_asked_for_soon_does_not_wait_for_what_the_server_imports(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import os, time\n\nwhile not os.path.exists(__file__[:-7] + 'go'):\n    time.sleep(0.01)\n"
    )
    (tmp_path / "asked.py").write_text(
        "import sys\n\ndef serve(connection, name):\n    while True:\n        connection.receive()\n"
        "        connection.send([name, 'slow' in sys.modules])\n"
    )
    command = [sys.executable, "-c", WHILE_IT_IMPORTS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout) == [["first", False], ["last", True], True]


OF_A_SLOW_MODULE = """\
import json, os, signal, sys

from evo.errors import ChildDied
from evo.spec.child_process import ChildProcess, begin, begin_forks

folder = sys.argv[1]
os.environ["PYTHONPATH"] = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
begin_forks(["evo.spec.child_main"], ["asked:serve"])
begin("asked:serve", "first", soon=True, modules=["slow"])
children = [ChildProcess("asked:serve", name, modules=["slow"]) for name in ("first", "second")]
children.append(ChildProcess("asked:serve", "third"))
said = [child.ask("imported?", 60) for child in children]
further = said[0][1]
os.kill(further, signal.SIGKILL)
for child in children[:2]:
    while child.is_running:
        pass
again = ChildProcess("asked:serve", "fourth", modules=["slow"])
print(json.dumps([os.getpid(), *said, again.ask("imported?", 60)]), flush=True)
sys.stdin.read()
"""


def test_a_slow_module_is_imported_once_for_all_who_need_it(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import os\n\nBY = os.getpid()\n")
    (tmp_path / "asked.py").write_text(
        "import os, sys\n\ndef serve(connection, name):\n    while True:\n        connection.receive()\n"
        "        slow = sys.modules.get('slow')\n"
        "        connection.send([name, os.getppid(), os.getpid(), slow and slow.BY])\n"
    )
    command = [sys.executable, "-c", OF_A_SLOW_MODULE, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        driver, first, second, third, fourth = json.loads(process.stdout.readline())
        process.kill()
    assert [who for who, *_ in (first, second, third, fourth)] == ["first", "second", "third", "fourth"]
    assert first[1] == second[1] == first[3] == second[3]  # who forked them, and who imported it
    assert third[3] is None
    assert fourth[1] == fourth[3]
    assert len({driver, first[1], third[1], fourth[1]}) == 4
    assert first[2] != second[2]
    for server in (third[1], fourth[1], fourth[2]):
        assert is_gone(server)


WHO_DOES_NOT_WAIT = """\
import json, os, sys, threading, time

from evo.spec.child_process import ChildProcess, begin_forks

folder = sys.argv[1]
os.environ["PYTHONPATH"] = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
begin_forks(["evo.spec.child_main"], ["asked:serve"])
child = ChildProcess("asked:serve", "first", modules=["slow"])


def number():
    try:
        said.append(child.pid)
    except ProcessLookupError:
        said.append("never forked")


said = []
waiting = threading.Thread(target=number)
waiting.start()
child.close()
waiting.join()
open(folder + "/go", "w").close()
later = ChildProcess("asked:serve", "second", modules=["slow"])
print(json.dumps([*said, child.is_running, later.ask("imported?", 60)[0]]), flush=True)
"""


def test_who_stops_a_child_does_not_wait_for_what_it_would_have_imported(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import os, time\n\nwhile not os.path.exists(__file__[:-7] + 'go'):\n    time.sleep(0.01)\n"
    )
    (tmp_path / "asked.py").write_text(
        "def serve(connection, name):\n    while True:\n        connection.receive()\n        connection.send([name])\n"
    )
    command = [sys.executable, "-c", WHO_DOES_NOT_WAIT, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout) == ["never forked", False, "second"]


def test_a_slow_module_where_no_further_socket_has_a_name(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("")
    (tmp_path / "asked.py").write_text(
        "import sys\n\ndef serve(connection, name):\n    connection.receive()\n"
        "    connection.send('slow' in sys.modules)\n"
    )
    script = (
        "import os, sys, tempfile\nfrom evo.spec import forked_child\n"
        "from evo.spec.child_process import ChildProcess, begin_forks\n"
        "os.environ['PYTHONPATH'] = os.pathsep.join([sys.argv[1], os.environ.get('PYTHONPATH', '')])\n"
        "begin_forks(['evo.spec.child_main'], ['asked:serve'])\n"
        "server = forked_child.server_place()\n"
        "said = ChildProcess('asked:serve', 'one', modules=['slow']).ask('imported?', 60)\n"
        "print(len(server), said)"
    )
    folder = Path(
        tempfile.mkdtemp(prefix="x" * (81 - len(tempfile.gettempdir()) - 9), dir=tempfile.gettempdir())
    )  # with `/evo-forks-` and eight letters, `/socket` ends at 107 bytes
    try:
        environment = {**os.environ, "TMPDIR": str(folder)}
        command = [sys.executable, "-c", script, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=environment)
    finally:
        shutil.rmtree(folder)
    assert done.stdout.split() == ["107", "False"]
