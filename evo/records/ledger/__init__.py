"""The ledger: git holds the kept variants. `Ledger` writes, `History` reads; nothing else imports git."""

from __future__ import annotations

from evo.records.ledger.history import Commit, History
from evo.records.ledger.ledger import KeptTrial, Ledger
from evo.records.ledger.run_status import RunStatus, StatusFile, TrialStatus
from evo.records.ledger.steps import Render

__all__ = ["Commit", "History", "KeptTrial", "Ledger", "Render", "RunStatus", "StatusFile", "TrialStatus"]
