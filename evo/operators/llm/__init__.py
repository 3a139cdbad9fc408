"""EvoEngineer with a language model: strategies, prompts, edits, budgets, transcripts. One operator, `Llm`.

A reply can only ever become the text of a proposal: it is found in the reply, applied to the parent, held to one
change, compiled and judged like anyone's. Nothing in it reaches a shell, a path or an option.
"""

from __future__ import annotations

from evo.operators.llm.cost import Budget, LlmTotals, Price, Usage, price_of, read_price
from evo.operators.llm.model_settings import (
    LlmSettings,
    ModelChoice,
    ModelServer,
)
from evo.operators.llm.operator import Llm
from evo.operators.llm.prompts import STRATEGIES
from evo.operators.llm.questions import Surroundings
from evo.operators.llm.transcript import transcript_file

__all__ = [
    "STRATEGIES", "Budget", "Llm", "LlmSettings", "LlmTotals",
    "ModelChoice", "ModelServer", "Price", "Surroundings", "Usage", "price_of", "read_price",
    "transcript_file",
]  # fmt: skip
