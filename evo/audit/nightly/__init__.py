"""The nightly run: champions are measured again, demoted with a cause if they no longer hold; then the loop.

It combines existing parts: the loop's judge decides, the ledger records, the red team attacks.
"""

from __future__ import annotations

from evo.audit.nightly.bisect import Cause, bisect, cause_of
from evo.audit.nightly.champion_history import Version, candidates
from evo.audit.nightly.results import (
    STEPS,
    ChampionReview,
    Figure,
    Night,
    NightCheck,
    NightRun,
    ReviewState,
)
from evo.audit.nightly.run import Hooks, NightlyRun, NightPlan
from evo.audit.nightly.summary import junit, markdown

__all__ = [
    "STEPS", "Cause", "ChampionReview", "Figure", "Hooks", "Night", "NightCheck", "NightPlan",
    "NightRun", "NightlyRun", "ReviewState", "Version", "bisect", "candidates", "cause_of", "junit",
    "markdown",
]  # fmt: skip
