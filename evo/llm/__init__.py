"""EvoEngineer with a language model: strategies, prompts, edits, budgets, transcripts. One operator, `Llm`.

A reply can only ever become the text of a proposal: it is found in the reply, applied to the parent, held to one
change, compiled and judged like anyone's. Nothing in it reaches a shell, a path or an option.
"""

from __future__ import annotations

from evo.llm.cost import Budget, Price, Usage, price_of, read_price
from evo.llm.operator import Llm, Surroundings
from evo.llm.settings import MAX_TOKENS, PARALLEL, REPAIRS, RETRIES, LlmSettings, Server
from evo.llm.transcript import transcript_file
from evo.llm.traverse import STRATEGIES

__all__ = [
    "MAX_TOKENS",
    "PARALLEL",
    "REPAIRS",
    "RETRIES",
    "STRATEGIES",
    "Budget",
    "Llm",
    "LlmSettings",
    "Price",
    "Server",
    "Surroundings",
    "Usage",
    "price_of",
    "read_price",
    "transcript_file",
]
