"""The operator `llm`: questions in flight, answers taken in the order in which they were asked.

With several in flight, later questions do not know how the trial before them ends, and an edit of theirs is applied to
whatever the parent is by then. A question may be asked in several samples with different aims: those that compile to
new machine code are estimated, the best is tried, and the others only if they look like they pass the margin. Nothing
depends on which reply arrives first. Everything but the exchanges themselves runs in the loop's own thread.
"""

from __future__ import annotations

import functools
import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from queue import Empty, SimpleQueue

from evo.errors import EvoError, HarnessFault
from evo.evaluate.prepare import Prepared, PrepareFailure
from evo.evaluate.screening import screened_gains
from evo.operators import Context, Proposal
from evo.operators.llm.conversation import ExchangeOutcome, Question, exchange
from evo.operators.llm.cost import Account, Budget, LlmTotals, Price, Usage
from evo.operators.llm.edits import Edited, edit
from evo.operators.llm.endpoint import ChatRequest, Completion, Endpoint
from evo.operators.llm.model_bandit import ModelBandit
from evo.operators.llm.model_settings import LlmSettings
from evo.operators.llm.questions import Questions, Surroundings
from evo.operators.llm.reply_edits import Unusable, one_line
from evo.operators.llm.spending_meter import Overrun
from evo.operators.llm.transcript import Replay, Transcript, spent, transcript_file
from evo.results import Json
from evo.results.codec import copied
from evo.spec.variant import Variant

NAME = "llm"
_FRUITLESS = 6  # questions in a row without an edit that can be tried, before the model is given up
_POLL_S = 0.2
_CLOSE_S = 5.0


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
        opened = settings.open(self._notes.put)
        self._replay = opened if isinstance(opened, Replay) else None
        self._servers: dict[str, Endpoint] = opened if isinstance(opened, dict) else {}
        names = self._replay.models if self._replay is not None else tuple(self._servers)
        self.model = ", ".join(names)
        in_money = bool(settings.models) and all(choice.price is not None for choice in settings.models)
        self._models = ModelBandit(names, in_money=in_money)
        self._account = Account(Budget() if self._replay is not None else settings.budget)
        self._overrun = Overrun()
        replayed = self._replay.model_of if self._replay is not None else None
        self._questions = Questions(settings, around, self._account, self._models, self._overrun, replayed)
        self._transcript = Transcript(transcript_file(around.root, around.task.name, around.run))
        self._flying: deque[list[_Flight]] = deque()  # all samples of each question
        self._offers: deque[ExchangeOutcome] = deque()  # answers that wait for their trial
        self._taken = self._fruitless = self._edits = self._compiled = 0
        self._unrecorded = Usage()  # used since the last proposal
        self._ended = False
        self._fault: EvoError | None = None

    # --- the loop's side --------------------------------------------------------------------------------------------

    def propose(self, parent: Variant, *, rng: random.Random, context: Context) -> Proposal | None:
        """The next edit of the parent, or None when the budget, the transcript or the server is at its end.

        None too where a question brought nothing while others are tried: their verdicts come first.
        Raises the server's fault if no other operator is left to go on with.
        """
        del rng  # draws are by exchange, so that they do not depend on what other operators drew
        problem = "was tried already"
        while not self._around.stop():
            if self._offers:
                if (proposal := self._proposal(self._offers.popleft(), parent, context)) is not None:
                    self._fruitless = 0
                    return proposal
            else:
                self._fill(parent, context)
                if not self._flying:
                    break
                answers = self._take()
                if answers is None:
                    continue
                self._offers.extend(self._ranked(answers, parent))
                self._around.usage(self.totals)
                problem = one_line(answers[-1].problem) or answers[-1].ended
            if self._offers:
                continue
            if context.under_way:
                return None  # it cannot know what becomes of those: ask again when one more has its verdict
            self._fruitless += 1
            if self._fruitless >= _FRUITLESS and not self._ended:
                self._end(f"no usable edit in {_FRUITLESS} exchanges: {problem}")
        if self._fault is not None and self._around.alone:
            raise self._fault
        return None

    def go_on(self, run: str) -> None:
        """Go on with the account of an earlier run: what it has spent, this run cannot."""
        if self._replay is not None:
            return
        price = max((choice.price for choice in self._settings.models if choice.price), key=_dear, default=None)
        before = spent(transcript_file(self._around.root, self._around.task.name, run), price)
        if before != Usage():
            self._transcript.carry(before)
            self._account.settle(0, before)

    def close(self) -> None:
        """Let go of what is in flight; what it has used by now still counts."""
        for server in self._servers.values():
            server.close()
        flights = [flight for flights in self._flying for flight in flights]
        for flight in flights:
            flight.join(_CLOSE_S / len(flights))
            if flight.answer is not None:
                self._taken += 1
                self._settle(flight.answer)
        self._flying.clear()
        self._transcript.close()
        if self._replay is not None and self._replay.differing:
            count = self._replay.differing
            self._around.note(f"{count} prompts differed from those of the transcript: the runs are not the same")

    @property
    def totals(self) -> LlmTotals:
        """Totals so far: requests, tokens, money, how many exchanges gave an edit, and how many of those compiled."""
        return copied(
            LlmTotals,
            self._account.report,
            model=self.model,
            models=self._models.totals,
            strategy=self._settings.strategy,
            replayed=True if self._replay is not None else None,
            exchanges=self._taken,
            edits=self._edits,
            compiled=self._compiled,
        )

    def summary(self) -> LlmTotals:
        """The totals, with the cost of each proposal that was kept."""
        own = [record for record in self._around.records() if record.run == self._around.run]
        self._models.recall(own)
        kept = sum(record.kept and record.operator == NAME for record in own)
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
            if (why := self._questions.hopeless(parent)) is not None:
                self._end(why)
                return
            flying = [flight.question for flights in self._flying for flight in flights]
            questions = self._questions.next(parent, context, flying)
            if not questions:
                if not self._flying:
                    self._end("the language model's budget is spent")
                return
            self._flying.append([self._ask(question) for question in questions])

    def _ask(self, question: Question) -> _Flight:
        endpoint = self._replay if self._replay is not None else self._servers[question.model]
        tell = (self._probe, self._record, self._book, self._overrun)
        return _Flight(question, functools.partial(exchange, question, endpoint, *tell))

    def _probe(self, text: str) -> Prepared | PrepareFailure:
        return self._around.bench.prepare(self._around.task, text)

    def _book(self, request: ChatRequest, number: int, what: str, usage: Usage) -> None:
        if self._replay is None:
            self._transcript.account(request, number, what, usage)

    def _record(
        self, request: ChatRequest, completion: Completion, question: Question, number: int, charged: Usage
    ) -> None:
        if self._replay is None:
            self._transcript.add(
                request,
                completion,
                number=number,
                charged=charged,
                model=question.model,
                strategy=question.strategy,
                parent=question.parent.id,
            )

    # --- taking -----------------------------------------------------------------------------------------------------

    def _take(self) -> list[ExchangeOutcome] | None:
        """The answers to the oldest question, waited for; None if all met a fault, or the user asked to stop."""
        flights = self._flying[0]
        if any(flight.is_alive() for flight in flights):
            self._around.bench.on_stage("asking the language model")
        for flight in flights:
            while flight.is_alive():
                self._say_notes()
                if self._around.stop():
                    return None
                flight.join(_POLL_S)
        self._flying.popleft()
        self._say_notes()
        return [answer for flight in flights if (answer := self._landed(flight)) is not None] or None

    def _landed(self, flight: _Flight) -> ExchangeOutcome | None:
        """One answer, its cost in the account; None if its exchange met a fault."""
        answer = flight.answer
        if answer is None:
            hint = "the traceback is above; run again without --operators llm"
            raise HarnessFault("an exchange with the language model ended by a fault in evo itself", hint=hint)
        self._taken += 1
        self._settle(answer)
        for note in answer.notes:
            self._around.note(f"exchange {answer.question.exchange}: {note}")
        if answer.fault is None:
            return answer
        if self._fault is None:
            self._fault = answer.fault
            self._end(answer.fault.message)
        return None

    def _ranked(self, answers: Sequence[ExchangeOutcome], parent: Variant) -> list[ExchangeOutcome]:
        """What is to be tried: the one answer, or of several samples the best by estimate and what may pay."""
        usable = []
        for answer in answers:
            if answer.ended == "exhausted" and self._replay is not None and answer.attempts == 0:
                self._end("the transcript holds no further reply")
            elif answer.edited is None or answer.reply is None:
                number = answer.question.exchange
                self._around.note(f"exchange {number}: {answer.ended}: {one_line(answer.problem)}")
            else:
                usable.append(answer)
        compiled = list({answer.code: answer for answer in reversed(usable) if answer.compiles}.values())[::-1]
        if len(answers) == 1 or len(compiled) < 2 or not self._around.screens:
            return compiled or usable[:1]
        texts = [answer.edited.variant.text for answer in compiled if answer.edited is not None]
        bench = self._around.bench
        bench.on_stage("screen")
        gains = screened_gains(bench, self._around.task, parent.text, texts, self._around.seed)
        ranked = sorted(zip(gains, compiled, strict=True), key=lambda pair: -(pair[0] or 0.0))
        said = ", ".join(f"{answer.question.aim} {f'{gain:.2f}x' if gain else 'none'}" for gain, answer in ranked)
        self._around.note(f"estimated gains of {len(ranked)} samples: {said}")
        needed = 1 / (1 - self._questions.margin)
        return [answer for place, (gain, answer) in enumerate(ranked) if not place or (gain or 0.0) >= needed]

    def _say_notes(self) -> None:
        while True:
            try:
                self._around.note(self._notes.get_nowait())
            except Empty:
                return

    def _settle(self, answer: ExchangeOutcome) -> None:
        self._account.settle(answer.question.exchange, answer.usage)
        self._models.used(answer.question.model, answer.usage)
        self._unrecorded = self._unrecorded.plus(answer.usage)
        self._edits += answer.edited is not None
        self._compiled += answer.compiles

    def _end(self, why: str) -> None:
        """Ask no more; what is in flight is still taken."""
        self._ended = True
        self._around.note(f"the language model is asked no more: {why}")

    def _proposal(self, answer: ExchangeOutcome, parent: Variant, context: Context) -> Proposal | None:
        question, edited = answer.question, answer.edited
        assert edited is not None
        assert answer.reply is not None
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
            "model": question.model,
            "change": verdict.kind,
            "is_single": verdict.is_single,
            "lines_added": change.lines_added,
            "lines_removed": change.lines_removed,
            "exchange": question.exchange,
            "attempts": answer.attempts,
            "llm": self._unrecorded.report.to_json(),
        }
        if question.aim:
            arguments["aim"] = question.aim
        if question.donor is not None:
            arguments["donor"] = question.donor.variant
        lines = f"+{change.lines_added} -{change.lines_removed} lines, {verdict.why}"
        return Proposal(
            operator=NAME,
            kind=edited.kind,
            variant=edited.variant,
            summary=one_line(words.get("SUMMARY", ""), 100) or lines,
            reason=words.get("REASON", "") or f"proposed by {question.model}, which gave no reason",
            expected=words.get("EXPECTED", "") or "the model said nothing; only the margin decides",
            risk=words.get("RISK", "") or "the model named none",
            next_if_kept="ask for the next change",
            next_if_reverted="ask again, with this result among the insights",
            arguments=arguments,
        )


def _dear(price: Price) -> float:
    """What a token read and one written cost together."""
    return price.prompt + price.completion
