"""One exchange: a question, and as many repairs as it takes and may take. Runs in a thread of its own.

All that it depends on was gathered before it began, and its result is taken in order; so which reply arrives first
never changes what a run does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from evo.errors import EvoError
from evo.evaluate.prepare import Prepared, PrepareFailure
from evo.operators.llm.cost import Budget, Price, Usage
from evo.operators.llm.edits import Edited, edit
from evo.operators.llm.endpoint import BudgetSpent, ChatRequest, Completion, Endpoint, Exhausted, Message, PromptRefused
from evo.operators.llm.prompts import repair
from evo.operators.llm.reply_edits import Reply, Unusable, read_reply
from evo.operators.llm.spending_meter import Ledger, Meter, Overrun
from evo.records.trials.elites import Elite
from evo.spec.variant import Variant

_LONGEST_PROBLEM = 3000  # characters of a compiler's words
_FINAL = ("length",)
_MOST_THOUGHT = 2  # times that a question is asked again because its reply was all thought
_OPTIONS = "(--llm-reply-tokens gives more room, --llm-effort less effort)"
_NOTHING = "(no text)"  # some servers refuse an empty message


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
    model: str = ""
    price: Price | None = None
    aim: str = ""
    rewrite: bool = False
    donor: Elite | None = None
    tried: Collection[str] = frozenset()
    codes: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeOutcome:
    """What came of it. edited is None if no reply could be applied; problem says what was wrong last.

    compiles: whether it also got through the compiler. code: the hash of its machine code then. ended: `ok`,
    `unusable`, `refused`, `budget`, `exhausted`, or `fault`: no request can succeed any more. notes: for the user.
    """

    question: Question
    ended: str
    usage: Usage
    attempts: int
    edited: Edited | None = None
    reply: Reply | None = None
    compiles: bool = False
    code: str = ""
    problem: str = ""
    fault: EvoError | None = None
    notes: tuple[str, ...] = ()


Recorder = Callable[[ChatRequest, Completion, Question, int, Usage], None]
Probe = Callable[[str], Prepared | PrepareFailure]


@dataclass(slots=True)
class _State:
    messages: list[Message]
    meter: Meter
    room: int
    best: tuple[Edited, Reply] | None = None  # applied, but the compiler refused it
    problem: str = ""
    attempts: int = 0
    last: str | None = None  # the reply before
    notes: list[str] = field(default_factory=list)
    only_thoughts: int = 0  # replies without a word, all of their length thought
    less_effort: int = 0

    def thought_only(self) -> bool:
        """Ask for the same with more room, then with less effort. False if that was done in vain."""
        self.only_thoughts += 1
        if self.only_thoughts > _MOST_THOUGHT:
            return False
        before, self.room = self.room, self.meter.most
        self.less_effort += self.room == before
        asked = "with twice the room" if self.room > before else "with less effort"
        self.notes.append(f"a reply of {before:,} tokens was all thought: asked again {asked} {_OPTIONS}")
        return True

    def repair(self, completion: Completion) -> bool:
        """Tell the model what is wrong; False if it said the same before, so that further tries would only cost."""
        if completion.text == self.last:
            return False
        self.last = completion.text
        self.messages += [Message("assistant", completion.text or _NOTHING), repair(self.problem)]
        return True


def exchange(
    question: Question, endpoint: Endpoint, probe: Probe, record: Recorder, ledger: Ledger, overrun: Overrun
) -> ExchangeOutcome:
    """Ask, judge, and ask for repairs."""
    meter = Meter(question.allowance, question.price, 2 * question.max_tokens, ledger, overrun)
    state = _State(list(question.messages), meter, question.max_tokens)
    ended, fault, code = "unusable", None, ""
    for attempt in range(1, question.repairs + 2):
        request = ChatRequest(
            exchange=question.exchange,
            attempt=attempt,
            messages=tuple(state.messages),
            max_tokens=state.room,
            seed=question.seed + attempt - 1,
            less_effort=state.less_effort,
        )
        try:
            completion = endpoint.complete(request, meter)
        except (PromptRefused, BudgetSpent, Exhausted, EvoError) as error:
            ended, fault = _end_of(error), error if isinstance(error, EvoError) else None
            if isinstance(error, PromptRefused):
                state.problem = f"the server refuses the request: {error}"
            break
        if completion.max_tokens is not None:
            request = replace(request, max_tokens=completion.max_tokens)
        state.attempts = attempt
        record(request, completion, question, meter.number, meter.answered(request, completion))
        try:
            code = _judge(state, completion, question, probe)
            ended = "ok"
            break
        except Unusable as unusable:
            state.problem = unusable.problem
            if not (state.thought_only() if _is_only_thought(completion) else state.repair(completion)):
                break
    edited, reply = state.best or (None, None)
    return ExchangeOutcome(
        question=question,
        ended=ended,
        usage=meter.usage,
        attempts=state.attempts,
        edited=edited,
        reply=reply,
        compiles=ended == "ok",
        code=code,
        problem=state.problem,
        fault=fault,
        notes=tuple(state.notes),
    )


def _end_of(error: Exception) -> str:
    ends = {PromptRefused: "refused", BudgetSpent: "budget", Exhausted: "exhausted"}
    return ends.get(type(error), "fault")


def _judge(state: _State, completion: Completion, question: Question, probe: Probe) -> str:
    """Read a reply, apply it and compile it; the hash of its machine code. Raises Unusable."""
    reply = _read(completion, rewrite=question.rewrite)
    donor = question.donor.text if question.donor else None
    edited = edit(question.parent, reply, question.task, donor, rewrite=question.rewrite)
    _require_new(edited, question)
    state.best = (edited, reply)
    return _compiled(edited, question, probe)


def _is_only_thought(completion: Completion) -> bool:
    """Whether all of a reply's length went into thinking."""
    return completion.finish in _FINAL and not completion.text.strip()


def _read(completion: Completion, *, rewrite: bool) -> Reply:
    if _is_only_thought(completion):
        raise Unusable(
            "all of the reply's length went into thinking; give more room with --llm-reply-tokens, or less effort"
            " with --llm-effort"
        )
    if completion.finish in _FINAL:
        raise Unusable("the reply was cut off at its longest length; answer shorter, with the edit alone")
    return read_reply(completion.text, rewrite=rewrite)


def _require_new(edited: Edited, question: Question) -> None:
    if edited.variant.id in question.tried:
        raise Unusable("exactly this variant was tried already and not kept, or is being tried; propose something else")


def _compiled(edited: Edited, question: Question, probe: Probe) -> str:
    found = probe(edited.variant.text)
    if isinstance(found, PrepareFailure):
        raise Unusable(f"{found.status.value}: {found.reason[:_LONGEST_PROBLEM]}")
    if found.code_hash in question.codes:
        raise Unusable("it compiles to machine code that was tried already; propose something that changes it")
    return found.code_hash
