"""Kept trials according to git, as plain data for the reading commands. Takes no lock and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evo.errors import UsageError
from evo.records.ledger.git import Git
from evo.records.ledger.git_failures import GitFailed

TRIAL_TRAILER = "Evo-Trial"
_FORMAT = "--format=%H%x00%aI%x00%s%x00%(trailers:key=Evo-Trial,valueonly,separator=%x2C)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit of evo's. trial is None for a commit of records or of the leaderboard."""

    commit: str
    date: str
    subject: str
    trial: str | None


class History:
    """Reads the commits around a root. Open it with `History.open(root)`, or take a ledger's."""

    def __init__(self, git: Git) -> None:
        self._git = git

    @classmethod
    def open(cls, root: Path) -> History:
        """Raises LedgerUnclean if there is no git repository."""
        return cls(Git.find(root))

    def commits(self) -> dict[str, str]:
        """Trial -> the commit that kept it; the first one if a trial was cherry-picked or reverted and picked again."""
        found: dict[str, str] = {}
        for trials, commit in self._git.trailers(TRIAL_TRAILER):
            for trial in trials.split(","):
                found.setdefault(trial.strip(), commit)
        return found

    def commit_of(self, trial: str) -> str | None:
        """The commit that kept a trial; None if it was not kept, or not on this branch."""
        return self.commits().get(trial)

    def head(self) -> str | None:
        """The commit at HEAD; None on a branch without commits."""
        return self._git.head()

    def versions(self, path: Path) -> list[Commit]:
        """The commits that changed one file, oldest first."""
        rows = self._git.log(_FORMAT, "HEAD", "--", f":(top,literal){self._git.path(path)}")
        return [_commit(row) for row in reversed(rows)]

    def text_at(self, revision: str, path: Path) -> bytes | None:
        """A file as committed at a revision; None if it was not there. Raises UsageError for an unknown revision."""
        return self._git.read(self._resolve(revision), self._git.path(path))

    def not_committed(self, folder: Path) -> list[str]:
        """The files of a folder that are untracked, or that differ from what is committed, by path below the top."""
        return [path for _, path in self._git.status(f":(top,literal){self._git.path(folder)}")]

    def close(self) -> None:
        self._git.close()

    def _resolve(self, revision: str) -> str:
        try:
            return self._git.line("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except GitFailed:
            raise UsageError(f"git knows no commit {revision!r}", hint="`evo log` lists the kept trials") from None


def _commit(row: Sequence[str]) -> Commit:
    commit, date, subject, trial = row
    return Commit(commit=commit, date=date, subject=subject, trial=trial.strip() or None)
