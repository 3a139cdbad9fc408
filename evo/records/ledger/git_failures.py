"""Failures of git: commands that fail, and a repository that is no longer where evo left it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from evo.errors import HarnessFault, LedgerUnclean


class GitFailed(Exception):
    """A git command that ended with an error."""

    def __init__(self, command: str, code: int, stderr: str) -> None:
        super().__init__(command, code, stderr)
        self.command, self.code, self.stderr = command, code, stderr

    @property
    def is_full(self) -> bool:
        """Whether the disk is."""
        return any(sign in self.stderr for sign in ("No space left", "quota exceeded", "write error"))

    def fault(self) -> HarnessFault | LedgerUnclean:
        said = next((line for line in self.stderr.splitlines() if "fatal:" in line or "error:" in line), self.stderr)
        message = f"git {self.command} failed: {said.strip() or f'exit code {self.code}'}"
        if self.is_full:
            hint = "free some space and start again; nothing was half-written"
            return HarnessFault(message, problem=errno.errorcode[errno.ENOSPC], hint=hint)
        if "dubious ownership" in self.stderr:
            return LedgerUnclean(message, hint="git config --global --add safe.directory DIR, for this repository")
        if "File exists" in self.stderr:
            return LedgerUnclean(
                message, hint="wait for the other git command; if none is running, remove the lock file"
            )
        if any(sign in self.stderr for sign in ("Read-only file system", "Permission denied")):
            return HarnessFault(message, hint="make the repository writable and start again; nothing was half-written")
        return HarnessFault(message, hint="run `git status` and `git fsck`; the next start finishes what was begun")


@contextmanager
def told_as_fault() -> Iterator[None]:
    """A git command that fails is told as what it means for the ledger."""
    try:
        yield
    except GitFailed as failure:
        raise failure.fault() from failure


def history_left(commit: str) -> LedgerUnclean:
    """The branch no longer holds a commit of the run: `git reset`, `git commit --amend`, a rebase."""
    what = f"the branch was moved away from commit {commit[:12]} while evo was at work"
    hint = f"start again: evo goes on from the present commit; `git branch NAME {commit[:12]}` keeps the earlier one"
    return LedgerUnclean(what, problem="history-left", hint=hint)


def another_branch(branch: str, now: str | None, *, exists: bool) -> LedgerUnclean:
    """branch, now: the run's branch and the one that is checked out (None: a detached HEAD), by their full names."""
    name, other = branch.removeprefix("refs/heads/"), (now or "a detached HEAD").removeprefix("refs/heads/")
    if exists:
        what, hint = f"{other} is checked out", f"git switch {name}"
    else:
        what, hint = f"that branch no longer exists, and {other} is checked out", f"git switch -c {name}"
    return LedgerUnclean(
        f"an unfinished run belongs to branch {name}, but {what}",
        problem="another-branch",
        hint=f"{hint}, and start again",
    )
