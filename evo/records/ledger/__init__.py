"""The ledger: git holds the kept variants. `Ledger` writes, `History` reads; nothing else imports git."""

from __future__ import annotations

from evo.records.ledger.history import History
from evo.records.ledger.ledger import KeptTrial, Ledger
from evo.records.ledger.run_status import RunStatus, StatusFile, TrialStatus

__all__ = ["History", "KeptTrial", "Ledger", "RunStatus", "StatusFile", "TrialStatus"]
