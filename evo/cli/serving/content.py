"""What the page of a task shows, from the records as they are now. Files that did not change are not read again."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import evo
from evo.cli.pages.heat_map import heat_html
from evo.cli.pages.html_page import live_page, page_sections
from evo.cli.pages.present_run import present_run, task_links
from evo.cli.pages.report_model import report_model
from evo.cli.pages.trial_cards import trial_body
from evo.cli.record_view import commits_of, headline_of
from evo.cli.report_figures import heat_of, rooflines
from evo.errors import RecordCorrupt
from evo.records.leaderboard import build, entries
from evo.records.ledger import RunStatus, StatusFile
from evo.records.trials import Record
from evo.records.trials.store import read_run

Stamp = tuple[int, int]  # of a file: its time of change in ns, and its bytes


@dataclass(slots=True)
class Content:
    """The records of a repository, and the sections that were made of them.

    only: the one task that is shown, if one was asked for. Records that cannot be read raise nothing: a page that
    follows a run outlives a bad line, and says what is wrong. Threads may share one.
    """

    root: Path
    status_file: StatusFile
    only: str | None = None
    problem: str = ""
    _runs: dict[Path, tuple[Stamp, tuple[Record, ...]]] = field(default_factory=dict)
    _made: dict[str, tuple[tuple[Stamp, ...], dict[str, str]]] = field(default_factory=dict)
    _commits: dict[str, str] = field(default_factory=dict)
    _counts: dict[str, str] = field(default_factory=dict)
    _making: threading.RLock = field(default_factory=threading.RLock)
    _counting: threading.Lock = field(default_factory=threading.Lock)

    # --- what is there ----------------------------------------------------------------------------------------------

    def tasks(self) -> list[str]:
        """The tasks with records, those of the latest run first."""
        latest = {path.parents[1].name: path.stem for path in self._run_files(self.only)}
        return sorted(latest, key=lambda task: latest[task], reverse=True)

    def chosen(self, wanted: str | None) -> str | None:
        """The task to show: the wanted one, else that of the run under way, else the latest. None if it is unknown."""
        known, status = self.tasks(), self.status()
        running = status.task if status is not None and status.alive else None  # it may have no record yet
        if wanted is not None:
            return wanted if wanted in (*known, self.only, running) else None
        return self.only or running or (known[0] if known else "")

    def status(self) -> RunStatus | None:
        found = self.status_file.read()
        return found if found is None or self.only in (None, found.task) else None

    def records(self, task: str | None = None) -> list[Record]:
        """In order of task, run and number. A file that cannot be read is left out, and `problem` says so."""
        with self._making:
            return self._records(task)

    def _records(self, task: str | None) -> list[Record]:
        found: list[Record] = []
        self.problem = ""
        for path in self._run_files(task):
            stamp = stamp_of(path)
            if path not in self._runs or self._runs[path][0] != stamp:
                try:
                    self._runs[path] = (stamp, tuple(read_run(path)))
                except RecordCorrupt as error:
                    self.problem = error.message
                    continue
            found += self._runs[path][1]
        return found

    def _run_files(self, task: str | None) -> list[Path]:
        return sorted(self.root.glob(f"population/{task or '*'}/runs/*.jsonl"))

    # --- what is shown ----------------------------------------------------------------------------------------------

    def sections(self, task: str) -> dict[str, str]:
        """Each section's content by name, `now` and `summary` included."""
        with self._making:
            stamps = tuple(map(stamp_of, self._run_files(task)))
            if task not in self._made or self._made[task][0] != stamps:
                self._made[task] = (stamps, self._sections(task))
            now = present_run(self.status(), task, self.problem)
            return {"now": now, **self._made[task][1]}

    def _sections(self, task: str) -> dict[str, str]:
        records = self.records(task)
        self._commits = commits_of(self.root)
        headline = headline_of(self.root, task)
        board = entries(build(records, self._commits))
        told = report_model(
            records,
            commits=self._commits,
            headlines={task: headline} if headline is not None else {},
            title=task,
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            version=evo.__version__,
            rooflines=rooflines(self.root, board),
            lazy=True,
        )
        return page_sections(told)

    def marks(self, task: str) -> str:
        """A short hash of each section, as JSON: it changes if the section does."""
        return json.dumps(_marks(self.sections(task)), separators=(",", ":"))

    def page(self, task: str) -> str:
        content = self.sections(task)
        data = {"query": f"?task={quote(task)}", "marks": json.dumps(_marks(content), separators=(",", ":"))}
        return live_page(f"{task or 'kernels'} – evo", task_links(self.tasks(), task), content, data=data)

    def trial(self, name: str) -> str | None:
        """What a trial unfolds to; None if there is no such trial."""
        record = self._record(name)
        return trial_body(record, self._commits.get(name), counts=True) if record is not None else None

    def counts(self, name: str) -> str | None:
        """A trial's lines as the simulator counts them, one trial at a time; None if there is no such trial."""
        record = self._record(name)
        if record is None:
            return None
        with self._counting:
            if name not in self._counts:
                self._counts[name] = heat_html(heat_of(self.root, record, self.records(record.task)))
        return self._counts[name]

    def _record(self, name: str) -> Record | None:
        return next((one for one in self.records(self.only) if one.trial == name), None)


def _marks(content: Mapping[str, str]) -> dict[str, str]:
    return {name: hashlib.sha256(html.encode("utf-8", "replace")).hexdigest()[:12] for name, html in content.items()}


def stamp_of(path: Path) -> Stamp:
    try:
        about = path.stat()
    except OSError:
        return (0, 0)
    return (about.st_mtime_ns, about.st_size)
