"""The night shift: champions re-measured, demoted where they no longer hold with the cause, then the loop.

Composes what is there: the loop's own judge decides, the ledger records, the red team attacks.
"""

from __future__ import annotations

from evo.nightly.bisect import Cause, bisect, cause_of
from evo.nightly.lineage import Version, candidates, lineage
from evo.nightly.night import STEPS, Check, Night, Run
from evo.nightly.shift import Hooks, Plan, night_shift
from evo.nightly.standing import Figure, Held, Standing, State
from evo.nightly.summary import junit, markdown

__all__ = [
    "STEPS",
    "Cause",
    "Check",
    "Figure",
    "Held",
    "Hooks",
    "Night",
    "Plan",
    "Run",
    "Standing",
    "State",
    "Version",
    "bisect",
    "candidates",
    "cause_of",
    "junit",
    "lineage",
    "markdown",
    "night_shift",
]
