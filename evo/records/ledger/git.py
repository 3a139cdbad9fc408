"""Git, by plumbing commands only: the one file that imports GitPython.

Commits are made from HEAD's tree and the given files with an index of evo's own, so the user's index, working tree,
hooks and signing settings take no part. The author is evo; the committer is the user where git knows a name and an
address, else evo. Not: which files are evo's, or when to commit.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from evo.errors import LedgerUnclean
from evo.files import disk_fault
from evo.records.ledger.git_failures import GitFailed, another_branch, history_left, told_as_fault

if TYPE_CHECKING:
    import git

NAME, EMAIL = "evo", "evo@localhost"

_SETTINGS = (
    ("core.hooksPath", os.devnull),  # a user's hook may refuse, edit or slow down evo's commits
    ("core.fsmonitor", "false"),
    ("commit.gpgSign", "false"),
    ("core.safecrlf", "false"),  # a warning about line endings is not a reason to lose a trial
    ("core.fsync", "all"),  # a kept variant survives a power cut
    ("i18n.commitEncoding", "UTF-8"),
    ("i18n.logOutputEncoding", "UTF-8"),
)
_ATTRIBUTES = "take filter, working-tree-encoding and ident off kernels/ and population/ (see `git check-attr -a FILE`)"
_LOCK_WAIT_S = 30.0
_CHILD_WAIT_S = 2.0
_POLL_S = 0.05
_CLAIM = b"evo holds this lock; a later evo removes it if it is left behind\n"


class Git:
    """The repository that holds a root. Paths in and out are POSIX, relative to the top of the working tree."""

    def __init__(self, repo: git.Repo, root: Path) -> None:
        self._repo = repo
        self.folder = Path(repo.git_dir).resolve()
        self.common = Path(repo.common_dir).resolve()
        self.top = Path(str(repo.working_tree_dir)).resolve()
        prefix = root.resolve().relative_to(self.top).as_posix()
        self.prefix = "" if prefix == "." else prefix
        self._inherited: tuple[int, ...] = ()

    @classmethod
    def find(cls, root: Path) -> Git:
        """The repository around a root. Raises LedgerUnclean if there is none that evo can commit to."""
        try:
            import git
        except ImportError as error:
            del error  # GitPython's words fill a screen
            hint = "install git 2.31 or later; `git version` has to answer"
            raise LedgerUnclean("there is no git command that works on PATH", hint=hint) from None
        try:
            repo = git.Repo(root, search_parent_directories=True, expand_vars=False)
        except (git.InvalidGitRepositoryError, git.NoSuchPathError):
            raise LedgerUnclean(f"{root}: no git repository", hint=f"git init {root}") from None
        if repo.bare or repo.working_tree_dir is None:
            raise LedgerUnclean(f"{repo.git_dir}: a bare repository", hint="clone it, and work in the clone")
        found = cls(repo, root)
        with told_as_fault():
            found.line("rev-parse", "--is-inside-work-tree")
        return found

    def close(self) -> None:
        self._repo.close()
        self._inherited = ()

    def share_lock(self, descriptor: int) -> None:
        """Let every git command hold evo's lock too: if evo is killed, the next one waits for its last command."""
        self._inherited = (descriptor,)

    def path(self, file: Path) -> str:
        """A file's name in git. Raises ValueError for one outside of the working tree."""
        return (file.parent.resolve() / file.name).relative_to(self.top).as_posix()

    def run(
        self, *arguments: str, data: bytes = b"", index: Path | None = None, env: Mapping[str, str] | None = None
    ) -> bytes:
        """The output of a git command. Raises GitFailed."""
        settings = [part for name, value in _SETTINGS for part in ("-c", f"{name}={value}")]
        environment = {
            # Whatever started evo, a git hook perhaps, may have set these for another repository or index.
            "GIT_DIR": str(self.folder),
            "GIT_WORK_TREE": str(self.top),
            "GIT_INDEX_FILE": str(index or self.folder / "index"),
            "GIT_OPTIONAL_LOCKS": "0",
            **(env or {}),
        }
        try:
            # Held until its end: GitPython kills the command when this goes out of scope.
            handle = self._repo.git.execute(
                ["git", *settings, *arguments],
                istream=subprocess.PIPE,
                as_process=True,
                env=environment,
                start_new_session=True,  # Ctrl-C is for evo, which stops between steps
                pass_fds=self._inherited,
            )
            try:
                out, err = handle.communicate(data)
            finally:
                if handle.proc.poll() is None:  # it holds the lock
                    handle.proc.kill()
                    handle.proc.wait()
        except OSError as error:
            raise disk_fault(error, self.folder) from error
        if (code := handle.proc.returncode) == -signal.SIGINT:  # Ctrl-C reached it before it had a session of its own
            raise KeyboardInterrupt
        if code == -signal.SIGXFSZ:  # the limit on a file's size ended it, without a word
            raise disk_fault(OSError(errno.EFBIG, os.strerror(errno.EFBIG)), self.folder)
        if code:
            raise GitFailed(arguments[0], code, err.decode("utf-8", "replace"))
        return bytes(out)

    def line(self, *arguments: str, data: bytes = b"", index: Path | None = None) -> str:
        return self.run(*arguments, data=data, index=index).decode("utf-8", "surrogateescape").strip()

    def head(self) -> str | None:
        """The commit at HEAD; None on a branch without commits."""
        with suppress(GitFailed):
            return self.line("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return None

    def branch(self) -> str | None:
        """The full name of the branch (`refs/heads/main`), also before its first commit; None: HEAD is detached."""
        with suppress(GitFailed):
            return self.line("symbolic-ref", "--quiet", "HEAD")
        return None

    def has(self, ref: str) -> bool:
        with suppress(GitFailed):
            return bool(self.line("rev-parse", "--verify", "--quiet", ref))
        return False

    def is_name(self, ref: str) -> bool:
        try:
            self.run("check-ref-format", ref)
        except GitFailed:
            return False
        return True

    def create_branch(self, ref: str) -> None:
        """Make a branch at HEAD and go to it. Files and index stay as they are. Raises GitFailed."""
        head = self.head()
        if head is not None:
            self.run("update-ref", "-m", "evo: new branch", ref, head, "0" * len(head))
        self.run("symbolic-ref", "-m", "evo: switch", "HEAD", ref)

    def descends(self, commit: str) -> bool:
        """Whether a commit is HEAD or an ancestor of it."""
        if self.head() == commit:
            return True
        with suppress(GitFailed):
            self.run("merge-base", "--is-ancestor", commit, "HEAD")
            return True
        return False

    def is_as_committed(self, path: str) -> bool:
        """Whether a file of the working tree is what HEAD has; also if neither has it."""
        if self.read("HEAD", path) is None:
            return not (self.top / path).exists()
        return not self.status(f":(top,literal){path}")

    def interrupted_operation(self) -> str | None:
        """`merge`, `rebase` ... if the user is in the middle of one."""
        marks = {
            "MERGE_HEAD": "merge",
            "rebase-merge": "rebase",
            "rebase-apply": "rebase",
            "CHERRY_PICK_HEAD": "cherry-pick",
            "REVERT_HEAD": "revert",
        }
        return next((what for mark, what in marks.items() if (self.folder / mark).exists()), None)

    def status(self, *pathspecs: str) -> list[tuple[str, str]]:
        """(`XY`, path) of all that is staged, modified or untracked there."""
        out = self.run("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--", *pathspecs)
        rows = [row.decode("utf-8", "surrogateescape") for row in out.split(b"\0") if row]
        return [(row[:2], row[3:]) for row in rows]

    def read(self, revision: str, path: str) -> bytes | None:
        """A file as committed; None if it is not."""
        with suppress(GitFailed):
            return self.run("cat-file", "blob", f"{revision}:{path}")
        return None

    def require_at(self, branch: str, commit: str) -> None:
        """Raises LedgerUnclean if another branch is checked out, or if it lacks a commit ("": none is asked for)."""
        now = self.branch()
        if now != branch:
            raise another_branch(branch, now, exists=self.has(branch))
        if commit and not self.descends(commit):
            raise history_left(commit)

    @told_as_fault()
    def commit(
        self, files: Mapping[str, bytes], message: str, *, branch: str, date: str, onto: str = "", is_new: bool = False
    ) -> str | None:
        """Commit HEAD's tree with these files in it, and update the user's index for just these files.

        onto: a commit that the branch must hold. Raises LedgerUnclean if it does not, or is not checked out.
        Returns None if HEAD already holds the files, so that repeating an interrupted commit is harmless; is_new: makes
        a commit even so.
        """
        rows = b"".join(self._index_row(path, data) for path, data in files.items())
        for _ in range(10):
            self.require_at(branch, onto)
            head = self.head()
            tree = self._tree(head, rows)
            if head is not None and tree == self.line("rev-parse", f"{head}^{{tree}}") and not is_new:
                made = None  # nor is what an earlier turn made, if someone has committed the files meanwhile
                break
            made = self._commit_tree(tree, head, message, date)
            if self._advance(branch, made, head, message):
                break
        else:
            raise LedgerUnclean(f"{branch} keeps moving", hint="stop the other git commands and start again")
        self._update_index(rows, branch, made or onto)
        return made

    def _index_row(self, path: str, data: bytes) -> bytes:
        # With --path, filters and line-ending settings apply as in `git add`, so `git status` agrees afterwards.
        blob = self.store(path, data)
        return f"100644 {blob} 0\t{path}\0".encode("utf-8", "surrogateescape")

    def store(self, path: str, data: bytes) -> str:
        """Write a blob of these bytes and return its name.

        Raises LedgerUnclean if git would change more than line ends, and HarnessFault if the disk is full.
        """
        try:
            blob = self.line("hash-object", "-w", "--stdin", "--path", path, data=data)
        except GitFailed as failure:
            if " encod" in failure.stderr or "filter" in failure.stderr:
                raise LedgerUnclean(failure.fault().message, hint=_ATTRIBUTES) from failure
            raise failure.fault() from failure
        if blob not in (_blob_name(data, len(blob)), _blob_name(data.replace(b"\r\n", b"\n"), len(blob))):
            raise LedgerUnclean(
                f"{path}: git would commit another text than the one verified", hint=_ATTRIBUTES, problem="another-text"
            )
        return blob

    def _tree(self, head: str | None, rows: bytes) -> str:
        with self._private_index() as index:
            self.run("read-tree", head if head is not None else "--empty", index=index)
            self.run("update-index", "-z", "--index-info", data=rows, index=index)
            return self.line("write-tree", index=index)

    def _commit_tree(self, tree: str, head: str | None, message: str, date: str) -> str:
        parents = ("-p", head) if head is not None else ()
        env = {"GIT_AUTHOR_NAME": NAME, "GIT_AUTHOR_EMAIL": EMAIL, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        if not self._has_identity():
            env |= {"GIT_COMMITTER_NAME": NAME, "GIT_COMMITTER_EMAIL": EMAIL}
        text = message.replace("\0", "").encode("utf-8", "replace")
        return self.run("commit-tree", "--no-gpg-sign", tree, *parents, data=text, env=env).decode().strip()

    def _has_identity(self) -> bool:
        if os.environ.get("GIT_COMMITTER_NAME") and os.environ.get("GIT_COMMITTER_EMAIL"):
            return True
        with suppress(GitFailed):
            return bool(self.line("config", "user.name") and self.line("config", "user.email"))
        return False

    def _advance(self, branch: str, commit: str, head: str | None, message: str) -> bool:
        """Move the branch from one commit to the next; False if someone else has moved it."""
        reason = f"evo: {message.splitlines()[0] if message else ''}"
        old = head if head is not None else "0" * len(commit)
        try:
            self.run("update-ref", "-m", reason, branch, commit, old)
        except GitFailed:
            if self.head() == head and self.branch() == branch and (head is None or self.has(branch)):
                raise
            return False
        return True

    @contextmanager
    def _private_index(self, start: Path | None = None) -> Iterator[Path]:
        # Named by process: a git child of a killed evo may still be writing to its own.
        index = self.folder / f"evo-index-{os.getpid()}"
        try:
            if start is not None and start.exists():
                shutil.copyfile(start, index)
            yield index
        except OSError as error:
            raise disk_fault(error, index) from error
        finally:
            for path in (index, index.with_name(f"{index.name}.lock")):
                with suppress(OSError):
                    path.unlink(missing_ok=True)

    def _update_index(self, rows: bytes, branch: str, commit: str) -> None:
        """Set these entries of the user's index; all else that is staged stays staged."""
        real = self.folder / "index"
        with self._index_lock(), self._private_index(real) as index:
            self.require_at(branch, commit)  # what resets or switches needs this lock too
            self.run("update-index", "-z", "--add", "--index-info", data=rows, index=index)
            with suppress(GitFailed):  # also ends with 1 if the user has changed other files
                self.run("update-index", "-q", "--refresh", index=index)
            os.replace(index, real)

    @contextmanager
    def _index_lock(self) -> Iterator[None]:
        """Git's own lock on the index, held in a way that a later evo recognises if this one is killed."""
        lock, claim = self.folder / "index.lock", self.folder / f"evo-claim-{os.getpid()}"
        deadline = time.monotonic() + _LOCK_WAIT_S
        try:
            claim.write_bytes(_CLAIM)
            while not self._take(claim, lock):
                if time.monotonic() > deadline:
                    hint = f"finish the other git command; if none is running, remove {lock}"
                    raise LedgerUnclean(f"{lock}: held by another git command", problem="locked", hint=hint)
                time.sleep(_POLL_S)
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
        except OSError as error:
            raise disk_fault(error, lock) from error
        finally:
            with suppress(OSError):
                claim.unlink(missing_ok=True)

    def _take(self, claim: Path, lock: Path) -> bool:
        try:
            os.link(claim, lock)  # appears whole or not at all, so whose it is can always be told
        except FileExistsError:
            self.clear_index_lock()
            return False
        return True

    def clear_index_lock(self) -> bool:
        """Remove an index lock that a killed evo left. Only for the holder of evo's own lock."""
        lock = self.folder / "index.lock"
        try:
            ours = lock.read_bytes() == _CLAIM
        except OSError:
            return False
        if ours:
            lock.unlink(missing_ok=True)
        return ours

    def clear_leftovers(self) -> None:
        """Remove private files of killed evos. Only for the holder of evo's own lock."""
        for pattern in ("evo-index-*", "evo-claim-*"):
            for path in self.folder.glob(pattern):
                with suppress(OSError):
                    path.unlink(missing_ok=True)

    def clear_ref_locks(self, branch: str, since: float) -> list[Path]:
        """Remove locks on HEAD and the branch that a git child of a killed evo left since a moment (seconds, as mtime).

        They get two seconds to go away by themselves: the child may still be alive.
        """
        left = []
        locks = (self.folder / "HEAD.lock", self.common / f"{branch}.lock")
        deadline = time.monotonic() + _CHILD_WAIT_S
        while any(lock.exists() for lock in locks) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        for lock in locks:
            with suppress(OSError):
                if lock.stat().st_mtime >= since:
                    lock.unlink()
                    left.append(lock)
        return left

    def trailers(self, key: str) -> list[tuple[str, str]]:
        """(value, commit) of every commit with this trailer, oldest first."""
        pattern = f"--format=%H%x00%(trailers:key={key},valueonly,separator=%x2C)"
        return [
            (row[1], row[0])
            for row in reversed(self.log(pattern, "--basic-regexp", f"--grep=^{key}: ", "HEAD"))
            if row[1]
        ]

    def log(self, *arguments: str) -> list[Sequence[str]]:
        """Rows of `git log -z` split at NUL, as the caller's format has them. Empty on a branch without commits."""
        if self.head() is None:
            return []
        fields = arguments[0].count("%x00") + 1
        with told_as_fault():
            out = self.run("log", "-z", "--no-show-signature", *arguments).decode("utf-8", "replace")
        parts = out.rstrip("\0").split("\0") if out else []
        parts += [""] * (-len(parts) % fields)
        return [parts[at : at + fields] for at in range(0, len(parts), fields)]


def _blob_name(data: bytes, digits: int) -> str:
    digest = hashlib.sha1 if digits == 40 else hashlib.sha256  # as the repository's object format has it
    return digest(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
