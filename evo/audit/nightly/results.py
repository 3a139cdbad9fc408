"""What a night has found, as data: checks by step, champions, runs of the loop. The exit code follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from evo.audit.nightly.champion_status import Standing
from evo.results import Json, drop_absent

LOSS = 1  # a champion that did not hold, or an attack that won
FAULT = 5

STEPS = ("doctor", "ledger", "control", "redteam", "champions", "iterate", "night", "report")
_STATES = ("passed", "failed", "fault", "skipped")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at. state: passed, failed (a finding), fault (of the machine or of evo), skipped.

    text: what was found, in a line. detail: more of it, for who wants to know. code: the exit code of a fault.
    """

    step: str
    name: str
    state: str
    text: str = ""
    detail: str = ""
    elapsed_s: float | None = None
    code: int = FAULT

    def __post_init__(self) -> None:
        if self.step not in STEPS or self.state not in _STATES:
            raise ValueError(f"no check: {self.step} {self.state}")

    def to_json(self) -> dict[str, Json]:
        return drop_absent(
            {
                "step": self.step,
                "name": self.name,
                "state": self.state,
                "text": self.text or None,
                "detail": self.detail or None,
                "elapsed_s": round(self.elapsed_s, 3) if self.elapsed_s is not None else None,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the loop brought at one task. start_us, end_us: of its headline case, in the night's kind of timing.

    started: whether its first champion was born in this run, which is no gain.
    """

    task: str
    trials: int
    kept: int
    champion: str
    headline: str
    start_us: float | None = None
    end_us: float | None = None
    started: bool = False

    def to_json(self) -> dict[str, Json]:
        return drop_absent(
            {
                "task": self.task,
                "started": self.started,
                "trials": self.trials,
                "kept": self.kept,
                "champion": self.champion,
                "case": self.headline,
                "start_us": self.start_us,
                "end_us": self.end_us,
            }
        )


@dataclass(slots=True, kw_only=True)
class Night:
    """Everything of one night. began: ISO 8601 in UTC. timing: of every figure in it."""

    device: str
    chip: str
    arch: str
    timing: str
    began: str
    version: str
    branch: str | None = None
    commit: str | None = None
    checks: list[Check] = field(default_factory=list)
    standings: list[Standing] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    elapsed_s: float = 0.0

    def of(self, step: str) -> list[Check]:
        return [check for check in self.checks if check.step == step]

    @property
    def exit_code(self) -> int:
        """0 where everything holds, 1 for a loss, else the code of the first fault."""
        if any(check.state == "failed" for check in self.checks):
            return LOSS
        return next((check.code for check in self.checks if check.state == "fault"), 0)

    @property
    def verdict(self) -> str:
        """The night in one line."""
        lost = [one for one in self.standings if one.state.is_loss]
        parts = []
        if lost:
            demoted = sum(one.state == "demoted" for one in lost)
            parts.append(f"{len(lost)} of {_plural(len(self.standings), 'champion')} did not hold, {demoted} demoted")
        elif self.standings:
            parts.append(f"{_plural(len(self.standings), 'champion')} reviewed, none lost")
        else:
            parts.append("no champion to review" if self.of("champions") else "ended before the champions")
        if won := [check for check in self.of("redteam") if check.state == "failed"]:
            parts.append(f"{_plural(len(won), 'attack')} did not lose")
        if faults := sum(check.state == "fault" for check in self.checks):
            parts.append(f"{_plural(faults, 'fault')} of the machine or of evo")
        kept = sum(run.kept for run in self.runs)
        if started := sum(run.started for run in self.runs):
            parts.append(f"{_plural(started, 'first champion')}")
        if self.runs:
            parts.append(f"{kept} kept in {_plural(sum(run.trials for run in self.runs), 'trial')}")
        return "; ".join(parts)

    def to_json(self) -> dict[str, Json]:
        return drop_absent(
            {
                "verdict": self.verdict,
                "exit_code": self.exit_code,
                "device": self.device,
                "chip": self.chip,
                "arch": self.arch,
                "timing": self.timing,
                "began": self.began,
                "version": self.version,
                "branch": self.branch,
                "commit": self.commit,
                "champions": _json(self.standings),
                "runs": _json(self.runs),
                "checks": _json(self.checks),
                "elapsed_s": round(self.elapsed_s, 1),
            }
        )


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _json(rows: Sequence[Standing | Run | Check]) -> list[Json]:
    return [row.to_json() for row in rows]
