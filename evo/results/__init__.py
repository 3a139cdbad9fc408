"""Results of evaluating one variant: plain frozen data with JSON shapes; no I/O, no device, no numpy.

A number exists or is absent. Measured times (`Timing`) and modelled times (`Estimate`) are different types and
different JSON fields. `codec` writes and reads all of it.
"""

from __future__ import annotations

from evo.results.bench import Baseline, CaseBench, Clocks, Estimate, Rate, Timing, geometric_mean
from evo.results.check import CaseCheck, Check, Fault, Figure, Mismatch, SanitizerReport, Verified
from evo.results.codec import Json, drop_absent
from evo.results.decision import CaptureNoise, CaseEvidence, Control, Decision, Evidence, Gain
from evo.results.evaluation import CompileReport, Environment, Evaluation, KernelResources, Loaded
from evo.results.status import FaultKind, Ground, MismatchKind, Stage, StaticRule, Status, Verdict

__all__ = [
    "Baseline", "CaptureNoise", "CaseBench", "CaseCheck", "CaseEvidence", "Check", "Clocks",
    "CompileReport", "Control", "Decision", "Environment", "Estimate", "Evaluation", "Evidence", "Fault", "FaultKind",
    "Figure", "Gain", "Ground", "Json", "KernelResources", "Loaded", "Mismatch", "MismatchKind", "Rate",
    "SanitizerReport", "Stage", "StaticRule", "Status", "Timing", "Verdict", "Verified", "drop_absent",
    "geometric_mean",
]  # fmt: skip
