"""`evo serve` as a process, through HTTP: what it shows, how soon, to whom, and how it ends."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import headless_chromium
import pytest
from headless_chromium import Chromium
from ledger_samples import RUN, record, text_of
from tiny import environment, evo_here, fails, new_repository

from evo.cli.serving.server import listen
from evo.records.ledger import RunStatus, StatusFile, TrialStatus
from evo.records.trials import Record
from evo.results import Verdict

DELAY_S = 2.0  # what is promised between a record and the page


@dataclass
class Served:
    root: Path
    process: subprocess.Popen[bytes]
    port: int

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, headers=named)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), {k.lower(): v for k, v in answer.getheaders()}
        finally:
            connection.close()

    def append(self, *records: Record) -> None:
        path = self.root / "population" / "scale" / "runs" / f"{RUN}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.writelines(one.to_line() for one in records)


class Events:
    """The marks that the server sends, as a browser's EventSource would hear them."""

    def __init__(self, served: Served, task: str = "scale") -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
        self.connection.request("GET", f"/events?task={task}")
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200
        assert self.answer.headers["content-type"].startswith("text/event-stream")

    def next(self) -> tuple[str, dict[str, str]]:
        kind = ""
        while line := self.answer.readline().decode():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ").strip()
            if line.startswith("data: "):
                return kind, json.loads(line.removeprefix("data: "))
        return "", {}

    def close(self) -> None:
        self.connection.close()


def started(root: Path, *options: str, stdin: int | None = None) -> Served:
    process = subprocess.Popen(
        [sys.executable, "-m", "evo", "serve", *options],
        cwd=root,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None
    address = process.stdout.readline().decode().strip()
    assert address, process.stderr.read() if process.stderr else ""
    return Served(root, process, urlsplit(address).port or 0)


def ended(served: Served) -> int:
    """Its exit code, its pipes closed."""
    try:
        return served.process.wait(10)
    finally:
        served.process.kill()
        served.process.communicate()


def trials(first: int, last: int) -> list[Record]:
    return [
        record(
            number,
            parent=None if number == 1 else text_of(1),
            task="scale",
            verdict=Verdict.KEEP if number == 1 else Verdict.REVERT,
            time_us=100.0 / number,
        )
        for number in range(first, last + 1)
    ]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = new_repository(tmp_path_factory.mktemp("serve") / "repository")
    found = started(root, "--port", "0", "--task", "scale")
    found.append(*trials(1, 3))
    yield found
    found.process.send_signal(signal.SIGINT)
    assert ended(found) == 0


def test_the_page_has_every_section_and_asks_nobody_else(served: Served) -> None:
    code, text, headers = served.get("/")
    assert code == 200
    assert headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "connect-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "://" not in text
    for name in ("now", "summary", "climb", "trials", "descent", "roofline", "counters"):
        assert f'id="s-{name}"' in text
        code, section, _ = served.get(f"/section/{name}?task=scale")
        assert code == 200
        assert section in text or name == "now"


def test_any_trial_unfolds_kept_or_not(served: Served) -> None:
    for one in trials(1, 3):
        code, text, _ = served.get(f"/trial/{one.trial}")
        assert code == 200
        assert one.variant in text
        assert ('class="diff"' in text) == (one.parent is not None)
        assert "because" in text


def test_what_is_not_there_is_not_found(served: Served) -> None:
    paths = [f"/trial/{RUN}-0099", "/trial/", "/section/nope", "/counts/nope", "/?task=nope", "/events?task=nope", "/x"]
    paths += ["/../../../../etc/passwd", "/trial/..%2f..%2f..%2fetc%2fpasswd", "/section/%2e%2e%2fnow"]
    paths += ["/?task=..%2f..%2fkernels", "/state.json?task=../scale", "/static/page.css", "/.git/config"]
    for path in paths:
        assert served.get(path)[0] == 404, path


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "0.0.0.0", ""])
def test_another_host_name_gets_no_answer(served: Served, host: str) -> None:
    code, text, _ = served.get("/state.json", Host=host)
    assert code == 421
    assert "trials" not in text


def test_this_machine_by_any_of_its_names_gets_one(served: Served) -> None:
    for host in (f"127.0.0.1:{served.port}", f"localhost:{served.port}", "localhost", "LOCALHOST:1", "[::1]:8377"):
        assert served.get("/state.json", Host=host)[0] == 200


def test_another_site_gets_no_answer(served: Served) -> None:
    for site in ("cross-site", "same-site"):
        assert served.get("/state.json", Sec_Fetch_Site=site, Sec_Fetch_Mode="cors")[0] == 403
        assert served.get("/counts/x", Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors")[0] == 403
    assert served.get("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0] == 200  # a link to it
    assert served.get("/state.json", Sec_Fetch_Site="same-origin")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_nothing_can_be_written(served: Served, method: str) -> None:
    before = {path: path.read_bytes() for path in served.root.rglob("*") if path.is_file() and ".git" not in path.parts}
    for path in ("/", "/state.json", f"/trial/{RUN}-0001"):
        assert served.get(path, method)[0] == 405
    after = {path: path.read_bytes() for path in served.root.rglob("*") if path.is_file() and ".git" not in path.parts}
    assert before == after


def test_only_loopback_listens(served: Served) -> None:
    with listen(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", served.port), timeout=5)  # this machine too, by another address


def test_a_record_is_shown_within_two_seconds(served: Served) -> None:
    events = Events(served)
    kind, before = events.next()
    assert kind == "marks"
    began = time.monotonic()
    (new,) = trials(4, 4)
    served.append(new)
    after = before
    while after["trials"] == before["trials"]:
        kind, after = events.next()
        assert kind == "marks"
    assert f't-{new.trial}"' in served.get("/section/trials?task=scale")[1]
    assert time.monotonic() - began < DELAY_S
    assert after["climb"] != before["climb"]
    events.close()


def test_what_a_run_does_is_shown_within_two_seconds(served: Served) -> None:
    events = Events(served)
    _, before = events.next()
    now = time.time()
    trial = TrialStatus(
        number=7, trial=f"{RUN}-0007", operator="ladder", kind="rung", summary="<b>rung</b> 30", began_s=now
    )
    status = RunStatus(
        pid=os.getpid(),
        host=socket.gethostname(),
        task="scale",
        device="sim:l4",
        iterations=12,
        trials=6,
        trial=trial,
        stage="gate",
        stage_s=now,
        began_s=now,
    )
    file = StatusFile.of(served.root)
    file.write(status)
    _, after = events.next()
    assert time.time() - now < DELAY_S
    assert [name for name in after if after[name] != before[name]] == ["now"]
    shown = served.get("/section/now?task=scale")[1]
    assert "&lt;b&gt;rung&lt;/b&gt; 30" in shown
    assert "6 of at most 12 trials" in shown
    assert "correctness" in shown  # what it waits for
    assert served.get("/state.json")[1].count('"alive":true') == 1
    file.write(RunStatus(pid=2**22 + 1, host=socket.gethostname(), task="scale", stage_s=now, began_s=now))
    assert "ended from outside" in served.get("/section/now?task=scale")[1]
    events.close()


def test_a_page_opened_before_the_first_record_follows_the_first_run(tmp_path: Path) -> None:
    served = started(new_repository(tmp_path / "repository"), "--port", "0")
    try:
        opened = Events(served, task="")
        assert opened.next()[0] == "marks"
        now = time.time()
        StatusFile.of(served.root).write(
            RunStatus(pid=os.getpid(), host=socket.gethostname(), task="scale", stage_s=now, began_s=now)
        )
        while (told := opened.next()) and told[0] == "marks":
            pass
        assert told == ("task", True)  # the page loads itself again, now with the task
        assert time.time() - now < DELAY_S
        assert "?task=scale" in served.get("/")[1]
        following = Events(served)  # which the run has not recorded yet
        _, before = following.next()
        served.append(*trials(1, 1))
        assert following.next()[1]["trials"] != before["trials"]
        opened.close()
        following.close()
    finally:
        served.process.send_signal(signal.SIGINT)
        assert ended(served) == 0


def test_a_bad_line_is_told_and_the_page_lives(served: Served) -> None:
    path = served.root / "population" / "scale" / "runs" / "20260301T000000-bad0.jsonl"
    path.write_text('{"not": "a record"}\n')
    try:
        served.get("/section/trials?task=scale")
        assert path.name in served.get("/section/now?task=scale")[1]
        assert f't-{RUN}-0001"' in served.get("/?task=scale")[1]
    finally:
        path.unlink()


def test_a_port_in_use_is_told(served: Served) -> None:
    ran = evo_here("serve", "--port", str(served.port), cwd=served.root)
    fails(ran, 2, str(served.port), "in use", "--port 0")


def test_it_stops_at_ctrl_c_and_with_what_started_it(served: Served) -> None:
    for how in ("signal", "stdin"):
        other = started(served.root, *(["--port", "0"] if how == "signal" else ["--with-run"]), stdin=subprocess.PIPE)
        events = Events(other)
        assert events.next()[0] == "marks"
        began = time.monotonic()
        if how == "signal":
            other.process.send_signal(signal.SIGINT)
        else:
            assert other.process.stdin is not None
            other.process.stdin.close()
            other.process.stdin = None
        assert events.next() == ("end", True)  # the page says that what it shows is the last state
        events.close()
        assert ended(other) == 0
        assert time.monotonic() - began < 20  # a page that is open does not keep it


@pytest.mark.long
def test_a_run_shows_itself_and_takes_its_page_along(tmp_path: Path) -> None:
    root = new_repository(tmp_path / "repository")
    command = ["iterate", "scale", "--device", "sim:l4", "--iterations", "3", "--serve"]
    process = subprocess.Popen(
        [sys.executable, "-m", "evo", *command], cwd=root, stderr=subprocess.PIPE, env=environment(), text=True
    )
    assert process.stderr is not None
    address = next(word for word in process.stderr.readline().split() if word.startswith("http://"))
    rest = threading.Thread(target=process.stderr.read)
    rest.start()
    served = Served(root, process, urlsplit(address).port or 0)  # type: ignore[arg-type]
    alive = set()
    while process.poll() is None:
        try:
            code, text, _ = served.get("/state.json")
        except OSError:
            break
        assert code == 200
        alive.add(json.loads(text).get("alive"))
        time.sleep(0.1)
    assert process.wait(30) == 0
    rest.join()
    assert True in alive
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", served.port), timeout=5)
    status = StatusFile.of(root).read()
    assert status is not None
    assert (status.alive, status.problem, status.trials > 0) == (False, "", True)


@pytest.mark.long
def test_chromium_follows_it_without_complaint(tmp_path: Path) -> None:
    program = headless_chromium.find()
    if program is None:
        pytest.skip(f"no Chromium here: none of {', '.join(headless_chromium.NAMES)} is on the path")
    served = started(new_repository(tmp_path / "repository"), "--port", "0", "--task", "scale")
    served.append(*trials(1, 3))
    count = "document.querySelectorAll('#trial-list .trial').length"
    with Chromium(program) as browser:
        for width in (1440, 390):
            for dark in (False, True):
                browser.open(f"http://127.0.0.1:{served.port}/", width=width, dark=dark)
                assert browser.evaluate("document.documentElement.scrollWidth") <= width
        browser.evaluate("document.querySelector('.trial').open = true")
        browser.wait("document.querySelector('.trial .diff') !== null")
        served.append(*trials(4, 4))
        browser.wait(f"{count} === 4", limit_s=DELAY_S)
        assert browser.evaluate("document.querySelectorAll('.trial[open] .diff').length") == 1  # still unfolded
        asked = [url for url in browser.requests() if not url.startswith("data:")]
        assert all(url.startswith(f"http://127.0.0.1:{served.port}/") for url in asked)
        assert browser.complaints() == []
        served.process.send_signal(signal.SIGINT)
        assert ended(served) == 0
        browser.wait("!document.getElementById('offline').hidden")
