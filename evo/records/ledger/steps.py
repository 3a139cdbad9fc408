"""Steps of the ledger: carried out, undone, given up. Each part may be repeated: what was done is seen.

A step knows the branch and the commit that it began at. If the user has gone elsewhere since, nothing is committed, and
evo's own files are taken out of the way of git.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from evo.errors import HarnessFault, LedgerUnclean
from evo.files import append, remove, write_atomic
from evo.records.ledger.git import Git
from evo.records.ledger.history import History
from evo.records.ledger.journal import Journal, JournalStep, RunNote, pack, unpack
from evo.records.trials.store import records_taken_away

RUN_TRAILER = "Evo-Run"
# Trial -> commit, to the text of leaderboard.json.
BESIDE = ("transcripts", "looks")  # folders of a task's population
Render = Callable[[Mapping[str, str]], str]


class Steps:
    """Carries out the steps of one working tree."""

    def __init__(self, root: Path, git: Git, journal: Journal, render: Render) -> None:
        self._git, self._journal, self._render = git, journal, render
        self._history = History(git)
        self._leaderboard = git.path(root / "leaderboard.json")

    def keep(self, step: JournalStep, *, again: bool = False) -> str:
        """Commit champion and record, then the leaderboard that names that commit; returns the first commit.

        again: it was begun before. Raises LedgerUnclean if the branch was moved, or files were changed or taken away.
        """
        run_file, after = self.file(step.run_file), unpack(step.after)
        self._git.require_at(step.branch, step.head)
        self.require_known(step)
        self._missing_lines(step, run_file)  # before anything is written
        if not self.stands(step):
            write_atomic(self.file(step.champion), after)
        if missing := self._missing_lines(step, run_file):
            append(run_file, missing)
        known = self._history.commit_of(step.trial) if again else None
        files = {step.champion: after, step.run_file: read(run_file) or b""}
        if files[step.run_file][step.run_size :] != unpack(step.lines):
            raise records_taken_away(run_file)
        commit = self._commit_kept(step, files, known)
        self._require_there(step, files, commit)  # the leaderboard is made from them
        board = self._commit_leaderboard(step, commit)
        self._require_there(step, files | board, commit)
        self._journal.end_step()
        return commit

    def _commit_kept(self, step: JournalStep, files: Mapping[str, bytes], known: str | None) -> str:
        """known: the commit of the trial if there is one already; the index may lack it still."""
        for is_new in (False, True):  # if its commit was amended, HEAD has the files, but nothing names the trial
            made = self._git.commit(
                files, step.message, branch=step.branch, date=step.date, onto=step.head, is_new=is_new
            )
            if commit := known or made or self._history.commit_of(step.trial):
                return commit
        hint = "run `git log` and `git status`"
        raise HarnessFault(f"trial {step.trial}: no commit names it, but HEAD has its files", hint=hint)

    def _require_there(self, step: JournalStep, files: Mapping[str, bytes], commit: str) -> None:
        self._git.require_at(step.branch, commit)
        if gone := [path for path, data in files.items() if read(self.file(path)) != data]:
            problem = f"trial {step.trial} is kept (commit {commit[:12]}), but the working tree has lost {gone[0]}"
            raise LedgerUnclean(problem, hint=f"`git restore {' '.join(gone)}`; then start again")

    def _missing_lines(self, step: JournalStep, run_file: Path) -> bytes:
        """What the run's file still lacks of the record."""
        data, lines = read(run_file) or b"", unpack(step.lines)
        if len(data) < step.run_size:
            raise records_taken_away(run_file)
        if not lines.startswith(added := data[step.run_size :]):
            hint = f"restore it with git, or cut it back to its first {step.run_size} bytes"
            raise LedgerUnclean(f"{run_file}: changed since evo was killed", hint=hint)
        return lines[len(added) :]

    def _commit_leaderboard(self, step: JournalStep, commit: str) -> dict[str, bytes]:
        file = self.file(self._leaderboard)
        data = self._render(self._history.commits()).encode("utf-8")
        if read(file) != data:
            write_atomic(file, data)
        message = f"{step.leaderboard_message}\n\nNames commit {commit}.\n"
        files = {self._leaderboard: data}
        self._git.commit(files, message, branch=step.branch, date=step.date, onto=commit)
        return files

    def commit_records(self, note: RunNote, date: str, run_size: int = 0) -> str | None:
        """Commit the records that no keep has committed. None if there are none. run_size: bytes that there must be."""
        head = self._git.head() or ""
        files = {path: data for path in (note.run_file, *beside(note)) if (data := read(self.file(path)))}
        if len(files.get(note.run_file, b"")) < run_size:
            raise records_taken_away(self.file(note.run_file))
        if not files:
            return None
        message = f"{note.task}: records of run {note.run}\n\n{RUN_TRAILER}: {note.run}\n"
        commit = self._git.commit(files, message, branch=note.branch, date=date, onto=head)
        self._git.require_at(note.branch, commit or head)
        if gone := [path for path, data in files.items() if not (read(self.file(path)) or b"").startswith(data)]:
            problem = f"the records of run {note.run} are committed, but the working tree has lost {gone[0]}"
            raise LedgerUnclean(problem, hint=f"`git restore {' '.join(gone)}`; then start again")
        return commit

    # --- undoing ----------------------------------------------------------------------------------------------------

    def put_back(self, step: JournalStep) -> None:
        """Restore the champion's file, which a variant on trial stands in."""
        if self.is_elsewhere(step):
            self.stand_aside(step)
            return
        if not self.stands(step) and self._git.is_as_committed(step.champion):
            return  # put back by git: `git restore`, `git reset --hard`
        self.require_known(step)
        self._restore(step.champion, None if step.before is None else unpack(step.before))

    def is_elsewhere(self, step: JournalStep) -> bool:
        """Whether another branch is checked out now, or the branch lacks the commit that the step began at."""
        return self._git.branch() != step.branch or bool(step.head and not self._git.descends(step.head))

    def is_taken_back(self, step: JournalStep) -> bool:
        """Whether git has taken back what a keep goes on from: its commit or, by a reset, the records before its own.

        Records in a stash are not lost: they are asked for.
        """
        if self.is_elsewhere(step):
            return True
        is_short = len(read(self.file(step.run_file)) or b"") < step.run_size
        stashed = (self._git.read(f"refs/stash{part}", step.run_file) is not None for part in ("", "^3"))
        return is_short and self._git.is_as_committed(step.run_file) and not any(stashed)

    def stand_aside(self, step: JournalStep) -> None:
        """Let the files that the step has written be what HEAD has, so that git finds nothing in its way.

        Files that another program has changed stay as they are. What the step would write is in the journal.
        """
        if step.kind not in ("place", "keep"):
            return
        ours = {None if step.before is None else unpack(step.before), unpack(step.after)}
        if read(self.file(step.champion)) in ours:
            self._restore(step.champion, self._git.read("HEAD", step.champion))
        if step.kind == "place":
            return
        self._restore(self._leaderboard, self._git.read("HEAD", self._leaderboard))
        is_committed = self._git.read(step.branch, step.run_file) == read(self.file(step.run_file))
        if self._git.branch() != step.branch and is_committed and self._git.read("HEAD", step.run_file) is None:
            remove(self.file(step.run_file))

    def give_up(self, step: JournalStep) -> str:
        """End a keep that is taken back: what it goes on from is no longer there. Returns where its text is now."""
        self.stand_aside(step)
        run_file = self.file(step.run_file)
        data = read(run_file) or b""
        if len(data) > step.run_size and unpack(step.lines).startswith(data[step.run_size :]):
            write_atomic(run_file, data[: step.run_size])
        spare = self._git.folder / f"evo-unkept-{step.trial}.cu"
        write_atomic(spare, unpack(step.after))
        self._journal.end_step()
        return (
            f"gave up the keep of trial {step.trial}: git has taken back commits or records that it goes on from "
            f"(`git reflog` has the commits); its text is in {spare}"
        )

    def _restore(self, path: str, data: bytes | None) -> None:
        file = self.file(path)
        if data is None:
            remove(file)
        elif read(file) != data:
            write_atomic(file, data)

    def require_known(self, step: JournalStep) -> None:
        """Raises LedgerUnclean if the champion's file holds neither what was there before nor the step's variant."""
        file = self.file(step.champion)
        known = {None if step.before is None else unpack(step.before), unpack(step.after)}
        if read(file) not in known:
            hint = f"move your version away, `git restore {step.champion}`, and start again"
            raise LedgerUnclean(f"{file}: changed by another program", problem="changed-outside", hint=hint)

    def stands(self, step: JournalStep) -> bool:
        """Whether the champion's file holds the step's variant."""
        return read(self.file(step.champion)) == unpack(step.after)

    def file(self, path: str) -> Path:
        return self._git.top / path

    def packed(self, path: str) -> str | None:
        """A file as the journal has it."""
        data = read(self.file(path))
        return pack(data) if data is not None else None


def beside(note: RunNote) -> tuple[str, ...]:
    """Other files of a run, in folders beside that of the run files: transcripts of language models, first looks."""
    runs, _, name = note.run_file.rpartition("/")
    return tuple(f"{runs.rpartition('/')[0]}/{folder}/{name}" for folder in BESIDE)


def read(file: Path) -> bytes | None:
    """A file's bytes; None if there is none."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
