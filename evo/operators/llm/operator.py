"""The operator `llm`: questions in flight, answers taken in the order in which they were asked.

A question is made from the state of the run at the moment it is asked: with several in flight, later ones do not know
how the trial before them ends, and an edit of theirs is applied to whatever the champion is by then. Nothing depends on
which reply arrives first. Everything but the exchanges themselves runs in the loop's own thread.
"""

from __future__ import annotations

import functools
import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue

from evo.errors import EvoError, HarnessFault
from evo.evaluate.prepare import Failed, Prepared
from evo.evaluate.session import Workbench
from evo.operators import STALLED_AFTER, Context, Proposal
from evo.operators.llm.case_table import can_pay, possible_gain
from evo.operators.llm.conversation import ExchangeOutcome, Question, exchange
from evo.operators.llm.cost import Account, Budget, LlmTotals, Usage, guess_tokens
from evo.operators.llm.edits import Edited, edit
from evo.operators.llm.endpoint import ChatRequest, Completion, Endpoint
from evo.operators.llm.guidance import guidance
from evo.operators.llm.hardware_context import hardware_context
from evo.operators.llm.meter import Overrun
from evo.operators.llm.model_settings import LlmSettings
from evo.operators.llm.prompt_context import kept_record
from evo.operators.llm.prompts import STRATEGIES, Guidance, prompt
from evo.operators.llm.replies import Unusable, one_line
from evo.operators.llm.transcript import Replay, Transcript, spent, transcript_file
from evo.records.trials import Record
from evo.results import Json
from evo.results.codec import copied
from evo.spec.task import Task
from evo.spec.variant import Variant

NAME = "llm"
_FRUITLESS = 6  # exchanges in a row without an edit that can be tried, before the model is given up
_POLL_S = 0.2
_CLOSE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the operator sees of the run that it works for. history: all records of the task, also this run's."""

    root: Path
    run: str
    task: Task
    bench: Workbench
    history: Callable[[], Sequence[Record]]
    note: Callable[[str], None]
    usage: Callable[[LlmTotals], None]
    stop: Callable[[], bool] = lambda: False
    alone: bool = True  # no other operator: a lost server ends the run
    seed: int = 0
    margin: float | None = None  # that a gain has to pass; the device's own if absent
    neutral: bool = False  # what gains nothing may be kept too


class _Flight(threading.Thread):
    """One exchange under way. A daemon: a server that never answers does not keep evo from ending."""

    def __init__(self, question: Question, ask: Callable[[], ExchangeOutcome]) -> None:
        super().__init__(daemon=True, name="evo-llm")
        self.question, self._ask = question, ask
        self.answer: ExchangeOutcome | None = None
        self.start()

    def run(self) -> None:
        self.answer = self._ask()


class Llm:
    """A source of proposals, one language model behind it. Close it."""

    name = NAME

    def __init__(self, settings: LlmSettings, around: Surroundings) -> None:
        self._settings, self._around = settings, around
        self._notes: SimpleQueue[str] = SimpleQueue()
        self._endpoint: Endpoint = settings.open(self._notes.put)
        replayed = self._endpoint.replayed
        self.model = self._endpoint.model if isinstance(self._endpoint, Replay) else _model(settings)
        self._strategy = STRATEGIES[settings.strategy]
        self._account = Account(Budget() if replayed else settings.budget, None if replayed else settings.price)
        self._transcript = Transcript(transcript_file(around.root, around.task.name, around.run))
        self._flying: deque[_Flight] = deque()
        self._asked = self._fruitless = self._edits = self._compiled = 0
        self._unrecorded = Usage()  # used since the last proposal
        self._hardware: dict[str, Sequence[str]] = {}  # by parent
        self._overrun = Overrun()
        self._ended = False
        self._fault: EvoError | None = None

    # --- the loop's side --------------------------------------------------------------------------------------------

    def propose(self, parent: Variant, *, rng: random.Random, context: Context) -> Proposal | None:
        """The next edit of the parent, or None when the budget, the transcript or the server is at its end.

        None too where a question brought nothing while others are tried: their verdicts come first.
        Raises the server's fault where no other operator is left to go on with.
        """
        del rng  # draws are by exchange, so that they do not depend on what other operators drew
        while not self._around.stop():
            self._fill(parent, context)
            if not self._flying:
                break
            answer = self._take()
            if answer is None:
                continue
            proposal = self._proposal(answer, parent, context)
            self._around.usage(self.totals)
            if proposal is not None:
                self._fruitless = 0
                return proposal
            if context.under_way:
                return None  # it cannot know what becomes of those: ask again when one more has its verdict
            self._fruitless += 1
            if self._fruitless >= _FRUITLESS and not self._ended:
                self._end(f"no usable edit in {_FRUITLESS} exchanges: {one_line(answer.problem) or answer.ended}")
        if self._fault is not None and self._around.alone:
            raise self._fault
        return None

    def go_on(self, run: str) -> None:
        """Go on with the account of an earlier run: what it has spent, this run cannot."""
        if self._endpoint.replayed:
            return
        before = spent(transcript_file(self._around.root, self._around.task.name, run))
        if before != Usage():
            self._transcript.carry(before)
            self._account.settle(0, before)

    def close(self) -> None:
        """Let go of what is in flight; what it has used by now still counts."""
        self._endpoint.close()
        for flight in self._flying:
            flight.join(_CLOSE_S / len(self._flying))
            if flight.answer is not None:
                self._settle(flight.answer)
        self._flying.clear()
        self._transcript.close()
        if isinstance(self._endpoint, Replay) and self._endpoint.differing:
            count = self._endpoint.differing
            self._around.note(f"{count} prompts differed from those of the transcript: the runs are not the same")

    @property
    def totals(self) -> LlmTotals:
        """Totals so far: requests, tokens, money, how many exchanges gave an edit, and how many of those compiled."""
        return copied(
            LlmTotals,
            self._account.report,
            model=self.model,
            strategy=self._strategy.name,
            replayed=True if self._endpoint.replayed else None,
            exchanges=self._asked - len(self._flying),
            edits=self._edits,
            compiled=self._compiled,
        )

    def summary(self) -> LlmTotals:
        """The totals, with the cost of each proposal that was kept."""
        kept = sum(r.kept and r.operator == NAME for r in self._around.history() if r.run == self._around.run)
        totals = self.totals
        return replace(
            totals,
            kept=kept,
            tokens_per_keep=round(self._account.used.tokens / kept) if kept else None,
            cost_per_keep=totals.cost / kept if kept and totals.cost is not None else None,
        )

    # --- asking -----------------------------------------------------------------------------------------------------

    def _fill(self, parent: Variant, context: Context) -> None:
        most = self._settings.parallel
        if context.trials_left is not None:
            most = min(most, context.trials_left)
        while not self._ended and len(self._flying) < most:
            if (why := self._hopeless(parent)) is not None:
                self._end(why)
                return
            question = self._question(parent, context)
            if question is None:
                if not self._flying:
                    self._end("the language model's budget is spent")
                return
            ask = functools.partial(
                exchange, question, self._endpoint, self._probe, self._record, self._book, self._overrun
            )
            self._flying.append(_Flight(question, ask))

    def _probe(self, text: str) -> Prepared | Failed:
        return self._around.bench.prepare(self._around.task, text)

    def _book(self, request: ChatRequest, number: int, what: str, usage: Usage) -> None:
        if not self._endpoint.replayed:
            self._transcript.account(request, number, what, usage)

    def _record(
        self, request: ChatRequest, completion: Completion, question: Question, number: int, charged: Usage
    ) -> None:
        if not self._endpoint.replayed:
            self._transcript.add(
                request,
                completion,
                number=number,
                charged=charged,
                model=self.model,
                strategy=question.strategy,
                parent=question.parent.id,
            )

    def _question(self, parent: Variant, context: Context) -> Question | None:
        """The next question, with an allowance that is enough for it; None where the budget has none left."""
        number = self._asked + 1
        rewrite = self._wants_rewrite(context)
        shown, strategy = self._guidance(parent, number, rewrite)
        messages = prompt(shown)
        text = "\n".join(message.content for message in messages)
        calls = self._settings.repairs + 1 + (self._settings.server.retries if self._settings.server else 0)
        tokens = calls * (guess_tokens(text) + 2 * self._settings.max_tokens)
        price = self._account.price
        money = price.of(tokens, calls * self._settings.max_tokens) if price else None
        allowance = self._account.reserve(number, Budget(calls=calls, tokens=tokens, money=money))
        beyond = (self._overrun.prompt, self._overrun.reply)
        if allowance.reply_tokens(text, self._settings.max_tokens, price, *beyond) == 0:
            self._account.settle(number, Usage())
            return None
        self._asked = number
        return Question(
            exchange=number,
            parent=parent,
            task=self._around.task.name,
            messages=messages,
            strategy=strategy,
            allowance=allowance,
            max_tokens=self._settings.max_tokens,
            repairs=self._settings.repairs,
            seed=random.Random(f"{self._around.seed}/{number}").randrange(2**31 - 100),
            price=price,
            rewrite=rewrite,
            donor=shown.donor,
            tried=frozenset(context.tried),
            codes=frozenset(context.codes),
        )

    def _hopeless(self, parent: Variant) -> str | None:
        """Why nothing that a model could propose would be kept: then nothing is spent on asking."""
        around = self._around
        record = kept_record(around.history(), parent.id, (around.bench.chip_slug, around.bench.arch))
        if record is None or around.neutral:
            return None
        gain = possible_gain(around.task, record.evaluation, around.bench.chip)
        if gain is None or can_pay(gain, self._margin):
            return None
        return (
            f"no case can pay the margin: with all scored cases at their least time the gain is {gain:.2f}x,"
            f" and {1 / (1 - self._margin):.2f}x is needed"
        )

    @property
    def _margin(self) -> float:
        return self._around.bench.default_margin if self._around.margin is None else self._around.margin

    def _wants_rewrite(self, context: Context) -> bool:
        """Whether the next question may be answered by a rewrite: if the run has one left, and this is the time.

        `rewrite` begins with one; it and the other strategies that may ask for one go on with single changes until
        nothing was kept for a while.
        """
        under_way = sum(flight.question.rewrite for flight in self._flying)
        if context.rewrites_left <= under_way or self._strategy.rewrites == "never":
            return False
        own = [r for r in self._around.history() if r.run == self._around.run and r.proposed]
        if self._strategy.rewrites == "first" and not under_way and all(r.kind != "rewrite" for r in own):
            return True
        return not under_way and len(own) >= STALLED_AFTER and not any(r.kept for r in own[-STALLED_AFTER:])

    def _guidance(self, parent: Variant, number: int, rewrite: bool) -> tuple[Guidance, str]:
        """What this question shows, by strategy, and the strategy's name as it was carried out."""
        around, records = self._around, list(self._around.history())
        return guidance(
            around.task,
            around.bench,
            parent,
            records,
            self._strategy,
            margin=self._margin,
            draw=random.Random(f"{around.seed}/{number}/donor"),
            rewrite=rewrite,
            stalled=_stalled(records),
            hardware=self._hardware_of,
        )

    def _hardware_of(self, parent: Variant, headline_us: float | None) -> Sequence[str]:
        if parent.id not in self._hardware:
            self._hardware[parent.id] = hardware_context(self._around.task, parent, self._around.bench, headline_us)
        return self._hardware[parent.id]

    # --- taking -----------------------------------------------------------------------------------------------------

    def _take(self) -> ExchangeOutcome | None:
        """The oldest answer, waited for; None where its exchange met a fault, or the user asked to stop."""
        flight = self._flying[0]
        if flight.is_alive():
            self._around.bench.on_stage("asking the language model")
        while flight.is_alive():
            self._say_notes()
            if self._around.stop():
                return None
            flight.join(_POLL_S)
        self._flying.popleft()
        self._say_notes()
        answer = flight.answer
        if answer is None:
            hint = "the traceback is above; run again without --operators llm"
            raise HarnessFault("an exchange with the language model ended by a fault in evo itself", hint=hint)
        self._settle(answer)
        for note in answer.notes:
            self._around.note(f"exchange {answer.question.exchange}: {note}")
        if answer.fault is None:
            return answer
        if self._fault is None:
            self._fault = answer.fault
            self._end(answer.fault.message)
        return None

    def _say_notes(self) -> None:
        while True:
            try:
                self._around.note(self._notes.get_nowait())
            except Empty:
                return

    def _settle(self, answer: ExchangeOutcome) -> None:
        self._account.settle(answer.question.exchange, answer.usage)
        self._unrecorded = self._unrecorded.plus(answer.usage)
        self._edits += answer.edited is not None
        self._compiled += answer.compiles

    def _end(self, why: str) -> None:
        """Ask no more; what is in flight is still taken."""
        self._ended = True
        self._around.note(f"the language model is asked no more: {why}")

    def _proposal(self, answer: ExchangeOutcome, parent: Variant, context: Context) -> Proposal | None:
        question, edited = answer.question, answer.edited
        if answer.ended == "exhausted" and self._endpoint.replayed and answer.attempts == 0:
            self._end("the transcript holds no further reply")
            return None
        if edited is None or answer.reply is None:
            self._around.note(f"exchange {question.exchange}: {answer.ended}: {one_line(answer.problem)}")
            return None
        if question.parent.text != parent.text:
            try:
                donor = question.donor.text if question.donor is not None else None
                edited = edit(parent, answer.reply, self._around.task.name, donor, rewrite=question.rewrite)
            except Unusable as stale:
                words = f"exchange {question.exchange}: the champion has changed since: {one_line(stale.problem)}"
                self._around.note(words)
                return None
        if edited.variant.id in context.tried or edited.variant.id == parent.id:
            self._around.note(f"exchange {question.exchange}: proposes {edited.variant.id}, which was tried already")
            return None
        found = self._described(answer, edited)
        self._unrecorded = Usage()
        return found

    def _described(self, answer: ExchangeOutcome, edited: Edited) -> Proposal:
        question, change, verdict = answer.question, edited.change, edited.verdict
        words = answer.reply.words if answer.reply else {}
        arguments: dict[str, Json] = {
            "strategy": question.strategy,
            "model": self.model,
            "change": verdict.kind,
            "is_single": verdict.is_single,
            "lines_added": change.lines_added,
            "lines_removed": change.lines_removed,
            "exchange": question.exchange,
            "attempts": answer.attempts,
            "llm": self._unrecorded.priced(self._account.price).to_json(),
        }
        if question.donor is not None:
            arguments["donor"] = question.donor.variant
        lines = f"+{change.lines_added} -{change.lines_removed} lines, {verdict.why}"
        return Proposal(
            operator=NAME,
            kind=edited.kind,
            variant=edited.variant,
            summary=one_line(words.get("SUMMARY", ""), 100) or lines,
            reason=words.get("REASON", "") or f"proposed by {self.model}, which gave no reason",
            expected=words.get("EXPECTED", "") or "the model said nothing; only the margin decides",
            risk=words.get("RISK", "") or "the model named none",
            next_if_kept="ask for the next change",
            next_if_reverted="ask again, with this result among the insights",
            arguments=arguments,
        )


def _model(settings: LlmSettings) -> str:
    return settings.server.model if settings.server is not None else ""


def _stalled(records: Sequence[Record]) -> int:
    """Trials since something was kept last."""
    ordered = sorted(records, key=lambda record: (record.run, record.number), reverse=True)
    return next((count for count, record in enumerate(ordered) if record.kept), len(ordered))
