"""The nightly run: champions are measured again, demoted with a cause if they no longer hold; then the loop.

It combines existing parts: the loop's judge decides, the ledger records, the red team attacks.
"""

from __future__ import annotations

from evo.audit.nightly.bisect import Cause, bisect, cause_of
from evo.audit.nightly.champion_history import Version, candidates, lineage
from evo.audit.nightly.champion_status import ChampionReview, Comparison, Figure, State
from evo.audit.nightly.results import STEPS, Night, NightCheck, Run
from evo.audit.nightly.run import Hooks, Plan, run_night
from evo.audit.nightly.summary import junit, markdown

__all__ = [
    "STEPS",
    "Cause",
    "ChampionReview",
    "Comparison",
    "Figure",
    "Hooks",
    "Night",
    "NightCheck",
    "Plan",
    "Run",
    "State",
    "Version",
    "bisect",
    "candidates",
    "cause_of",
    "junit",
    "lineage",
    "markdown",
    "run_night",
]
