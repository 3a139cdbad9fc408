"""One exchange: a question, and as many repairs as it takes and may take. Runs in a thread of its own.

All that it depends on was gathered before it began, and its result is taken in order; so which reply arrives first
never changes what a run does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from evo.errors import EvoError
from evo.evaluate.prepare import Failed, Prepared
from evo.operators.llm.cost import Budget, Price, Usage
from evo.operators.llm.edits import Edited, edit
from evo.operators.llm.endpoint import BudgetSpent, ChatRequest, Completion, Endpoint, Exhausted, Message, PromptRefused
from evo.operators.llm.meter import Ledger, Meter, Overrun
from evo.operators.llm.prompts import repair
from evo.operators.llm.replies import Reply, Unusable, read_reply
from evo.records.trials.elites import Elite
from evo.spec.variant import Variant

_LONGEST_PROBLEM = 3000  # characters of a compiler's words
_FINAL = ("length",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What one exchange starts from."""

    exchange: int
    parent: Variant
    task: str
    messages: tuple[Message, ...]
    strategy: str
    allowance: Budget
    max_tokens: int
    repairs: int
    seed: int
    price: Price | None = None
    rewrite: bool = False
    donor: Elite | None = None
    tried: Collection[str] = frozenset()
    codes: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeOutcome:
    """What came of it. edited is None where no reply could be applied; problem says what was wrong last.

    compiles: whether it also got through the compiler. ended: `ok`, `unusable`, `refused`, `budget`, `exhausted`, or
    `fault`: no request can succeed any more.
    """

    question: Question
    ended: str
    usage: Usage
    attempts: int
    edited: Edited | None = None
    reply: Reply | None = None
    compiles: bool = False
    problem: str = ""
    fault: EvoError | None = None


Recorder = Callable[[ChatRequest, Completion, Question, int, Usage], None]
Probe = Callable[[str], Prepared | Failed]


@dataclass(slots=True)
class _State:
    messages: list[Message]
    meter: Meter
    room: int
    best: tuple[Edited, Reply] | None = None  # applied, but the compiler refused it
    problem: str = ""
    attempts: int = 0
    last: str | None = None  # the reply before


def exchange(
    question: Question, endpoint: Endpoint, probe: Probe, record: Recorder, ledger: Ledger, overrun: Overrun
) -> ExchangeOutcome:
    """Ask, judge, and ask for repairs."""
    meter = Meter(question.allowance, question.price, 2 * question.max_tokens, ledger, overrun)
    state = _State(list(question.messages), meter, question.max_tokens)

    def answer(ended: str, *, compiles: bool = False, fault: EvoError | None = None) -> ExchangeOutcome:
        edited, reply = state.best or (None, None)
        return ExchangeOutcome(
            question=question,
            ended=ended,
            usage=meter.usage,
            attempts=state.attempts,
            edited=edited,
            reply=reply,
            compiles=compiles,
            problem=state.problem,
            fault=fault,
        )

    for attempt in range(1, question.repairs + 2):
        request = ChatRequest(
            exchange=question.exchange,
            attempt=attempt,
            messages=tuple(state.messages),
            max_tokens=state.room,
            seed=question.seed + attempt - 1,
        )
        try:
            completion = endpoint.complete(request, meter)
        except PromptRefused as refusal:
            state.problem = f"the server refuses the request: {refusal}"
            return answer("refused")
        except BudgetSpent:
            return answer("budget")
        except Exhausted:
            return answer("exhausted")
        except EvoError as fault:
            return answer("fault", fault=fault)
        if completion.max_tokens is not None:
            request = replace(request, max_tokens=completion.max_tokens)
        state.attempts = attempt
        record(request, completion, question, meter.number, meter.answered(request, completion))
        try:
            reply = _read(completion, rewrite=question.rewrite)
            donor = question.donor.text if question.donor else None
            edited = edit(question.parent, reply, question.task, donor, rewrite=question.rewrite)
            _require_new(edited, question)
            state.best = (edited, reply)
            _require_compiling(edited, question, probe)
            return answer("ok", compiles=True)
        except Unusable as unusable:
            state.problem = unusable.problem
            if _is_only_thought(completion):
                state.room = meter.most  # once more, with twice the room
            if completion.text == state.last:
                break  # told what is wrong, the model says the same again: further tries would only cost
            state.last = completion.text
            state.messages += [Message("assistant", completion.text), repair(unusable.problem)]
    return answer("unusable")


def _is_only_thought(completion: Completion) -> bool:
    """Whether all of a reply's length went into thinking."""
    return completion.finish in _FINAL and not completion.text.strip()


def _read(completion: Completion, *, rewrite: bool) -> Reply:
    if _is_only_thought(completion):
        raise Unusable(
            "all of the reply's length went into thinking; think less, and answer with the edit alone"
            " (who runs this can give more room with --llm-reply-tokens, or less effort with --llm-effort)"
        )
    if completion.finish in _FINAL:
        raise Unusable("the reply was cut off at its longest length; answer shorter, with the edit alone")
    return read_reply(completion.text, rewrite=rewrite)


def _require_new(edited: Edited, question: Question) -> None:
    if edited.variant.id in question.tried:
        raise Unusable("exactly this variant was tried already and not kept, or is being tried; propose something else")


def _require_compiling(edited: Edited, question: Question, probe: Probe) -> None:
    found = probe(edited.variant.text)
    if isinstance(found, Failed):
        raise Unusable(f"{found.status.value}: {found.reason[:_LONGEST_PROBLEM]}")
    if found.code_hash in question.codes:
        raise Unusable("it compiles to machine code that was tried already; propose something that changes it")
