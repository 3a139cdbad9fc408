"""What is asked next: the question of each strategy, its samples with different aims, and which model is asked.

A question is made from the state of the run at the moment it is asked. All that is drawn is drawn by its number, so
that it does not depend on what other operators drew.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evo.analysis.roofline import limits
from evo.errors import SyntaxInvalid
from evo.evaluate.session import EvaluationSession
from evo.operators import STALLED_AFTER, Context
from evo.operators.llm.case_table import can_pay, possible_gain
from evo.operators.llm.conversation import Question
from evo.operators.llm.cost import Account, Budget, LlmTotals, Price, Usage, guess_tokens
from evo.operators.llm.hardware_context import hardware_context
from evo.operators.llm.model_bandit import ModelBandit
from evo.operators.llm.model_settings import LlmSettings
from evo.operators.llm.prompt_context import kept_record, trial_summary
from evo.operators.llm.prompts import STRATEGIES, PromptParts, prompt
from evo.operators.llm.question_contents import question_contents
from evo.operators.llm.spending_meter import Overrun
from evo.records.trials import Record, load_records
from evo.spec.chips import Chip
from evo.spec.task import Task
from evo.spec.variant import Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the operator sees of the run that it works for."""

    root: Path
    run: str
    task: Task
    bench: EvaluationSession
    note: Callable[[str], None]
    usage: Callable[[LlmTotals], None]
    stop: Callable[[], bool] = lambda: False
    alone: bool = True  # no other operator: a lost server ends the run
    seed: int = 0
    margin: float | None = None  # that a gain has to pass; the device's own if absent
    neutral: bool = False  # what gains nothing may be kept too
    screens: bool = False  # of several samples, gains are estimated first; if not, they are tried as they come

    def records(self) -> list[Record]:
        """All records of the task, this run's included."""
        return load_records(self.root, self.task.name)


class Questions:
    """Makes questions, within the budget. replayed: which model answered a question of a transcript."""

    def __init__(
        self,
        settings: LlmSettings,
        around: Surroundings,
        account: Account,
        models: ModelBandit,
        overrun: Overrun,
        replayed: Callable[[int], str] | None = None,
    ) -> None:
        self._settings, self._around, self._account = settings, around, account
        self._models, self._overrun, self._replayed = models, overrun, replayed
        self._strategy = STRATEGIES[settings.strategy]
        self._hardware: dict[str, Sequence[str]] = {}  # by parent
        self._aims = aims_of(around.task, around.bench.chip)
        self._rounds = 0
        self.asked = 0

    def next(self, parent: Variant, context: Context, flying: Sequence[Question]) -> list[Question]:
        """One question in all of its samples, with different aims if there are several; none if the budget is spent."""
        records = self._around.records()
        self._models.recall([record for record in records if record.run == self._around.run])
        rewrite = self._wants_rewrite(context, records, flying)
        count = 1 if rewrite else self._settings.samples  # a rewrite costs too much to be asked for several times
        found: list[Question] = []
        for place in range(count):
            aim = self._aims[(self._rounds * count + place) % len(self._aims)] if count > 1 else ""
            question = self._question(parent, context, records, rewrite=rewrite, aim=aim)
            if question is None:
                break
            found.append(question)
        self._rounds += bool(found)
        return found

    def hopeless(self, parent: Variant) -> str | None:
        """Why nothing that a model could propose would be kept: then nothing is spent on asking."""
        around = self._around
        record = kept_record(around.records(), parent.id, (around.bench.chip_slug, around.bench.arch))
        if record is None or around.neutral:
            return None
        gain = possible_gain(around.task, record.evaluation, around.bench.chip)
        if gain is None or can_pay(gain, self.margin):
            return None
        return (
            f"no case can pay the margin: with all scored cases at their least time the gain is {gain:.2f}x,"
            f" and {1 / (1 - self.margin):.2f}x is needed"
        )

    @property
    def margin(self) -> float:
        return self._around.bench.default_margin if self._around.margin is None else self._around.margin

    def _question(
        self, parent: Variant, context: Context, records: Sequence[Record], *, rewrite: bool, aim: str
    ) -> Question | None:
        """The next question, with an allowance that is enough for it; None if the budget has none left."""
        settings, number = self._settings, self.asked + 1
        shown, strategy = self._guidance(parent, number, records, rewrite, aim)
        messages = prompt(shown)
        text = "\n".join(message.content for message in messages)
        model = self._models.choose() if self._replayed is None else self._replayed(number)
        choice = next((each for each in settings.models if each.name == model), None)
        price = choice.price if choice is not None else None
        calls = settings.repairs + 1 + (choice.server.retries if choice is not None else 0)
        allowance = self._account.reserve(number, self._most(text, calls, price))
        if allowance.reply_tokens(text, settings.max_tokens, price, self._overrun.prompt, self._overrun.reply) == 0:
            self._account.settle(number, Usage())
            return None
        self.asked = number
        return Question(
            exchange=number,
            parent=parent,
            task=self._around.task.name,
            messages=messages,
            strategy=strategy,
            allowance=allowance,
            max_tokens=settings.max_tokens,
            repairs=settings.repairs,
            seed=random.Random(f"{self._around.seed}/{number}").randrange(2**31 - 100),
            model=model,
            price=price,
            aim=aim,
            rewrite=rewrite,
            donor=shown.donor,
            tried=frozenset(context.tried),
            codes=frozenset(context.codes),
        )

    def _most(self, text: str, calls: int, price: Price | None) -> Budget:
        """What a question may need at most."""
        tokens = calls * (guess_tokens(text) + 2 * self._settings.max_tokens)
        money = price.of(tokens, calls * self._settings.max_tokens) if price else None
        return Budget(calls=calls, tokens=tokens, money=money)

    def _wants_rewrite(self, context: Context, records: Sequence[Record], flying: Sequence[Question]) -> bool:
        """Whether the next question may be answered by a rewrite: if the run has one left, and this is the time.

        `rewrite` begins with one; it and the other strategies that may ask for one go on with single changes until
        nothing was kept for a while.
        """
        under_way = sum(question.rewrite for question in flying)
        if context.rewrites_left <= under_way or self._strategy.rewrites == "never":
            return False
        own = [r for r in records if r.run == self._around.run and r.proposed]
        if self._strategy.rewrites == "first" and not under_way and all(r.kind != "rewrite" for r in own):
            return True
        return not under_way and len(own) >= STALLED_AFTER and not any(r.kept for r in own[-STALLED_AFTER:])

    def _guidance(
        self, parent: Variant, number: int, records: Sequence[Record], rewrite: bool, aim: str
    ) -> tuple[PromptParts, str]:
        """What this question shows, by strategy, and the strategy's name as it was carried out."""
        around = self._around
        shown, name = question_contents(
            around.task,
            around.bench,
            parent,
            records,
            self._strategy,
            margin=self.margin,
            draw=random.Random(f"{around.seed}/{number}/donor"),
            rewrite=rewrite,
            stalled=_stalled(records),
            hardware=self._hardware_of,
        )
        every = self._settings.summary_every if self._strategy.insights else 0
        summary = trial_summary(records, around.run, every)
        return replace(shown, summary=summary, aim=sentence(aim) if aim else ""), name

    def _hardware_of(self, parent: Variant, headline_us: float | None) -> Sequence[str]:
        if parent.id not in self._hardware:
            self._hardware[parent.id] = hardware_context(self._around.task, parent, self._around.bench, headline_us)
        return self._hardware[parent.id]


def _stalled(records: Sequence[Record]) -> int:
    """Trials since something was kept last."""
    ordered = sorted(records, key=lambda record: (record.run, record.number), reverse=True)
    return next((count for count, record in enumerate(ordered) if record.kept), len(ordered))


TENSOR = "tensor cores"
AIMS = {
    "memory": "move fewer bytes, or move them better: neighbouring lanes at neighbouring addresses, vector loads and"
    " stores, data kept in registers or shared memory instead of read again.",
    "latency": "hide latency: more independent loads in flight, cp.async with several stages, loads of the next step"
    " before the work of this one, fewer barriers, shorter chains of dependent instructions.",
    "occupancy": "keep the SMs busy: block size, registers and shared memory of a block, a grid that fills the chip"
    " without a short last wave, work shared out evenly.",
    "instructions": "execute fewer instructions: what does not change taken out of loops, cheaper index arithmetic,"
    " loops unrolled, cheaper but exact enough mathematics, wider types.",
    TENSOR: "the tensor cores: put products on mma instructions, or feed those that are there better (ldmatrix, larger"
    " fragments of a warp, operands reused in registers, no bank conflicts).",
    "launches": "another split of the work: what a block and a thread own, tiles of another shape, persistent blocks, a"
    " reduction split over blocks, several launches made one or one made several.",
}


def aims_of(task: Task, chip: Chip) -> tuple[str, ...]:
    """The aims that fit a task: tensor cores only if it has products of matrices."""
    return tuple(name for name in AIMS if name != TENSOR or _multiplies(task, chip))


def sentence(aim: str) -> str:
    """What a question with this aim says last."""
    return f"Others are asked the same with other aims. Yours is {aim}: {AIMS[aim]}"


def _multiplies(task: Task, chip: Chip) -> bool:
    try:
        return bool(limits(task, task.case(task.headline), chip).mac)
    except SyntaxInvalid:
        return False
