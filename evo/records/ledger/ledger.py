"""The ledger: keeps and reverts as git commits that survive `kill -9` at any instant.

Each step is written to the journal, then carried out by functions that may be repeated: whatever was done already is
seen and left alone. Writes only `kernels/<task>/champions/`, `population/` and `leaderboard.json`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from evo.errors import LedgerUnclean, UsageError
from evo.files import TEMPORARY_SUFFIX, mend_tail, remove, write_atomic
from evo.records.ledger.git import Git
from evo.records.ledger.git_failures import GitFailed, told_as_fault
from evo.records.ledger.history import TRIAL_TRAILER, History
from evo.records.ledger.journal import Journal, JournalStep, RunNote, pack
from evo.records.ledger.lock import Lock
from evo.records.ledger.steps import BESIDE, RUN_TRAILER, Render, Steps, beside, read

_OTHER_BRANCH = re.compile(r"'refs/heads/([^']++)' exists; cannot create")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTrial:
    """A variant to keep. lines: its record, to be added to the run's file of `run_size` bytes.

    message: what, why, effect, chip. date: ISO 8601, becomes the date of both commits.
    """

    task: str
    chip: str
    trial: str
    champion: Path
    text: str
    lines: str
    run_size: int
    message: str
    date: str


class Ledger:
    """The one writer of a working tree. `open`, `recover`, `prepare`, `begin`; then keep and revert; then `finish`."""

    def __init__(self, root: Path, git: Git, lock: Lock, render: Render) -> None:
        self.root = root.resolve()
        self.history = History(git)
        self._git, self._lock, self._render = git, lock, render
        self._journal = Journal(git.folder)
        self._steps = Steps(self.root, git, self._journal, render)
        self._base = ""  # the last commit of this run, which its branch must go on from
        self._note: RunNote | None = None
        self._committable: set[str] = set()

    @classmethod
    def open(cls, root: Path, render: Render) -> Self:
        """Find the repository and lock it. Raises LedgerUnclean (none, bare, mid-merge, another evo at work)."""
        git = Git.find(root)
        lock = Lock(git.folder / "evo.lock")
        git.share_lock(lock.descriptor)
        if operation := git.interrupted_operation():
            git.close()
            lock.release()
            hint = f"git {operation} --continue, or git {operation} --abort"
            raise LedgerUnclean(f"{git.top}: a {operation} is in progress", problem="operation-in-progress", hint=hint)
        return cls(root, git, lock, render)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the next evo in. What is unfinished stays in the journal for it."""
        self._git.close()
        self._lock.release()

    # --- at the start -----------------------------------------------------------------------------------------------

    def recover(self, *, date: str) -> list[str]:
        """Finish or undo the step of a killed evo; returns a sentence for each repair. date: of its commits."""
        said = self._clear_leftovers()
        step, note = self._journal.read_step(), self._journal.read_run()
        for branch in {unfinished.branch for unfinished in (step, note) if unfinished is not None}:
            if step is not None and self._git.branch() != branch:
                self._steps.stand_aside(step)
            self._git.require_at(branch, "")
        if step is not None:
            since = self._journal.step_since()
            locks = self._git.clear_ref_locks(step.branch, since)
            said += [f"removed {lock}, left by a git command of an evo that was killed" for lock in locks]
        if step is not None and step.kind == "place":
            self._steps.put_back(step)
            said.append(f"put back {step.champion}: the trial that stood in it was not decided")
        elif step is not None and step.kind == "keep" and self._steps.is_taken_back(step):
            said.append(self._steps.give_up(step))
        elif step is not None and step.kind == "keep":
            commit = self._steps.keep(step, again=True)
            said.append(f"finished the interrupted keep of trial {step.trial}: commit {commit[:12]}")
        if note is not None:
            said += self._end_run(note, date=date)
        if step is not None:
            self._journal.end_step()
        return said

    def prepare(self, branch: str | None = None) -> None:
        """Go to a branch (made from HEAD if new) and refuse foreign changes where evo writes. Raises LedgerUnclean."""
        if branch is not None:
            self._switch(branch)
        if self._git.branch() is None:
            hint = "name a branch: --branch NAME, or git switch NAME"
            raise LedgerUnclean(f"{self._git.top}: HEAD is detached", hint=hint)
        names = [path for _, path in self._status() if not self._is_harmless(path)]
        if names:
            shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            hint = "evo writes there: commit them (git add, git commit), move them away, or git restore them"
            if any(self._steps.file(path) == self.root / "leaderboard.json" for path in names):
                hint += "; `evo leaderboard --rebuild` writes leaderboard.json anew from the records"
            raise LedgerUnclean(f"uncommitted changes that are not evo's: {shown}", hint=hint)

    def begin(self, *, task: str, run: str, run_file: Path) -> None:
        """Say whose records are being written, before the first is."""
        note = RunNote(branch=self._branch(), task=task, run=run, run_file=self._own(run_file, "population"))
        self._journal.write_run(note)
        self._note, self._base = note, self._git.head() or ""

    # --- steps ------------------------------------------------------------------------------------------------------

    def place(self, champion: Path, text: str) -> None:
        """Let a variant stand in the champion's file while it is tried; `keep` or `revert` ends it."""
        path = self._own(champion, "kernels")
        step = self._open_step("place", path)
        if path not in self._committable:
            self._git.store(path, text.encode("utf-8"))
            self._committable.add(path)
        self._journal.write_step(replace(step, after=pack(text.encode("utf-8"))))
        write_atomic(self._steps.file(path), text.encode("utf-8"))

    def revert(self) -> None:
        """Restore the champion's file byte for byte, if it holds a variant on trial."""
        step = self._journal.read_step()
        if step is not None and step.kind == "place":
            self._steps.put_back(step)
            self._journal.end_step()
            self._git.require_at(step.branch, step.head)

    def keep(self, kept: KeptTrial) -> str:
        """Commit champion and record, then the leaderboard that names that commit; returns the first commit.

        Raises HarnessFault if the disk is full: files are whole, and the next start finishes the step.
        """
        note = self._running()
        path = self._own(kept.champion, "kernels")
        self._git.require_at(note.branch, self._base)
        self._git.store(path, kept.text.encode("utf-8"))
        self._git.store(note.run_file, kept.lines.encode("utf-8"))
        step = replace(
            self._open_step("keep", path),
            after=pack(kept.text.encode("utf-8")),
            run_file=note.run_file,
            run_size=kept.run_size,
            lines=pack(kept.lines.encode("utf-8")),
            trial=kept.trial,
            message=f"{_message(kept.message)}\n\n{TRIAL_TRAILER}: {kept.trial}\n",
            leaderboard_message=f"leaderboard: {kept.task} on {kept.chip}, trial {kept.trial}",
            date=kept.date,
        )
        self._journal.write_step(step)
        commit = self._steps.keep(step)
        self._base = self._git.head() or ""
        return commit

    def finish(self, *, date: str, run_size: int = 0) -> str | None:
        """Commit the records that no keep has committed, and end the run. None if there were none.

        run_size: bytes that the run's file has. Raises LedgerUnclean if some were taken away.
        """
        note = self._running()
        pending = self._journal.read_step()
        if pending is not None and self._steps.is_elsewhere(pending):
            self._steps.stand_aside(pending)
        self._git.require_at(note.branch, "")
        if pending is not None and pending.kind == "keep":  # it failed, on a full disk perhaps; now it may work
            self._steps.keep(pending, again=True)
        self.revert()
        self._journal.write_step(JournalStep(kind="finish", branch=note.branch, date=date))
        commit = self._steps.commit_records(note, date, run_size)
        self._remove_empty(self._steps.file(note.run_file))
        self._journal.end_run()
        self._journal.end_step()
        self._note = None
        return commit

    # --- what a killed run leaves -------------------------------------------------------------------------------------

    def _end_run(self, note: RunNote, date: str) -> list[str]:
        said = []
        file = self._steps.file(note.run_file)
        torn = mend_tail(file) if file.exists() else None
        if torn:
            spare = self._git.folder / f"evo-torn-{note.run}"
            write_atomic(spare, torn)
            said.append(f"cut a torn last line of {len(torn)} bytes off {note.run_file}; they are in {spare}")
        elif torn is not None:
            said.append(f"added the newline that the last line of {note.run_file} lacked")
        self._remove_empty(file)
        for other in map(self._steps.file, beside(note)):
            if other.exists():
                mend_tail(other)  # what was torn there is lost; the records do not need it
                self._remove_empty(other)
        if commit := self._steps.commit_records(note, date):
            said.append(f"committed the records of the interrupted run {note.run}: commit {commit[:12]}")
        self._journal.end_run()
        return said

    def _remove_empty(self, file: Path) -> None:
        """A run's file without a line: it was killed, or its disk was full, between creating it and its first one."""
        if read(file) == b"":
            remove(file)

    def _clear_leftovers(self) -> list[str]:
        self._git.clear_leftovers()
        said = []
        if self._git.clear_index_lock():
            said.append("removed the index lock of an evo that was killed")
        for folder, pattern in (
            (self._git.folder, "."),
            (self.root, "."),
            (self.root, "kernels/*/champions"),
            (self.root, "population/*/runs"),
            *((self.root, f"population/*/{folder}") for folder in BESIDE),
        ):
            for place in folder.glob(pattern) if pattern != "." else [folder]:
                for stray in place.glob(f".*{TEMPORARY_SUFFIX}"):
                    remove(stray)
                    said.append(f"removed {stray}, a file that was being written when evo was killed")
        return said

    # --- where things are -------------------------------------------------------------------------------------------

    def _open_step(self, kind: str, champion: str) -> JournalStep:
        pending = self._journal.read_step()
        self._git.require_at(self._running().branch, self._base)
        if pending is None:
            before = self._steps.packed(champion)
        elif pending.kind == "place" and pending.champion == champion:
            before = pending.before
            self._steps.put_back(pending)
        else:
            hint = "start evo again: it finishes the step first"
            raise LedgerUnclean(f"an earlier {pending.kind} of {pending.champion} is unfinished", hint=hint)
        branch = self._running().branch
        return JournalStep(kind=kind, branch=branch, champion=champion, before=before, head=self._base)

    def _running(self) -> RunNote:
        if self._note is None:
            raise ValueError("no run has begun")
        return self._note

    def _branch(self) -> str:
        branch = self._git.branch()
        if branch is None:
            raise LedgerUnclean(f"{self._git.top}: HEAD is detached", hint="git switch NAME, and start again")
        return branch

    def _own(self, file: Path, folder: str) -> str:
        """A file's path in git. Raises LedgerUnclean for one that evo may not write."""
        file = self.root / file
        try:
            path = self._git.path(file)
            (self._git.top / path).relative_to(self.root / folder)
        except ValueError:
            hint = f"{folder}/ must lie in the repository; a link that leads out of it cannot be committed"
            raise LedgerUnclean(f"{file}: not in {self.root / folder}", hint=hint, problem="outside") from None
        for above in file.relative_to(self.root).parents:
            if (place := self.root / above).exists() and not place.is_dir():
                hint = f"move it away: evo writes into a folder of that name ({path})"
                raise LedgerUnclean(f"{place}: not a folder", hint=hint, problem="not-a-folder")
        return path

    def _status(self) -> list[tuple[str, str]]:
        prefix = f"{self._git.prefix}/" if self._git.prefix else ""
        escaped = "".join(f"\\{letter}" if letter in "*?[\\" else letter for letter in prefix)
        with told_as_fault():
            return self._git.status(
                f":(top,glob){escaped}kernels/*/champions/**",
                f":(top,literal){prefix}population",
                f":(top,literal){prefix}leaderboard.json",
            )

    def _is_harmless(self, path: str) -> bool:
        """What `evo init` or `evo leaderboard --rebuild` wrote, not yet committed: nothing in it can be lost."""
        file = self._steps.file(path)
        if file.name == ".gitkeep":
            return True
        if file != self.root / "leaderboard.json":
            return False
        try:
            found = json.loads(read(file) or b"")
        except (ValueError, IsADirectoryError):
            return False
        return bool(found == json.loads(self._render(self.history.commits())))

    def _switch(self, name: str) -> None:
        ref = f"refs/heads/{name}"
        if self._git.branch() == ref:
            return
        ambiguous = name in ("HEAD", "@") or name.startswith("refs/")  # git would take these for something else
        if ambiguous or name.startswith("-") or not self._git.is_name(ref):
            raise UsageError(f"{name!r} is not a branch name", problem="branch-name", hint="letters, digits, - and /")
        try:
            if self._git.has(ref):
                self._git.run("switch", "--quiet", "--no-guess", "--no-recurse-submodules", name)
            else:
                self._git.create_branch(ref)
        except GitFailed as failure:
            if failure.is_full:
                raise failure.fault() from failure
            said = " ".join(failure.stderr.split())
            hint, problem = "commit or stash what is in the way, or name another branch", ""
            if (other := _OTHER_BRANCH.search(said)) is not None:  # evo and evo/first are file and folder to git
                hint, problem = (
                    f"name another branch, or rename that one: git branch -m {other[1]} NAME",
                    "branch-in-way",
                )
            raise LedgerUnclean(f"cannot switch to {name}: {said}", hint=hint, problem=problem) from failure


def _message(text: str) -> str:
    """A message whose last paragraph is never taken for trailers of evo's."""
    lines = [line.rstrip() for line in text.strip().splitlines()]
    forged = (TRIAL_TRAILER.lower(), RUN_TRAILER.lower())
    return "\n".join(f"> {line}" if line.strip().lower().startswith(forged) else line for line in lines)
