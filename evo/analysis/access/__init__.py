"""What a kernel does to memory, from its text: loops, accesses as maps of thread and loop indices, and what follows.

    for launch in analyse(variant, task, case, chip):
        launch.form         loops, branches and accesses with their spans in the file; what could not be followed
        launch.traffic      how often each access is carried out, sectors per request, footprints, reuse
        launch.reductions   sums, maxima, online softmax ...; launch.contractions: matrix products and convolutions
        launch.legality     which loops are parallel, which threads may be renumbered, what is read only
        opportunities_of(launch)

Sizes stay symbolic in the form; sets and counts are taken at a case. What is proven about axes holds for the cases that
the task declares.
"""

from evo.analysis.access.attention import PLANES, Attention, attention_of
from evo.analysis.access.comparisons import Combined, Compare, Condition, Unsure
from evo.analysis.access.contraction import Contraction, contractions_of
from evo.analysis.access.dependences import Dependence, Dependences
from evo.analysis.access.form import (
    BLOCK,
    THREAD,
    Access,
    Array,
    Barrier,
    Blocked,
    Branch,
    Carried,
    Data,
    EarlyExit,
    Exchange,
    Form,
    Loop,
    Multiply,
    Nest,
    Node,
    Unknown,
    walk,
)
from evo.analysis.access.instances import FormSizes, sizes_of
from evo.analysis.access.key_limits import KEY, ROW
from evo.analysis.access.launches import LaunchAnalysis, analyse
from evo.analysis.access.legality import Guard, Legality, Permission
from evo.analysis.access.numeric import number_of
from evo.analysis.access.opportunities import contraction_words, opportunities_of
from evo.analysis.access.opportunity import Opportunity
from evo.analysis.access.passes import RepeatedReads, passes_of
from evo.analysis.access.permutation import COUNTED, Moved, Permutation, moved_by, permutation_of
from evo.analysis.access.read import axis_values, read_forms
from evo.analysis.access.reductions import Reduction, reductions_of
from evo.analysis.access.source_terms import Wording
from evo.analysis.access.staging import Origin, Staged, origin, staged_of
from evo.analysis.access.terms import Op, Symbol, Term
from evo.analysis.access.traffic import AccessTraffic, ArrayTraffic, Footprint, Traffic, footprint, traffic_of

__all__ = [
    "BLOCK",
    "COUNTED",
    "KEY",
    "PLANES",
    "ROW",
    "THREAD",
    "Access",
    "AccessTraffic",
    "Array",
    "ArrayTraffic",
    "Attention",
    "Barrier",
    "Blocked",
    "Branch",
    "Carried",
    "Combined",
    "Compare",
    "Condition",
    "Contraction",
    "Data",
    "Dependence",
    "Dependences",
    "EarlyExit",
    "Exchange",
    "Footprint",
    "Form",
    "FormSizes",
    "Guard",
    "LaunchAnalysis",
    "Legality",
    "Loop",
    "Moved",
    "Multiply",
    "Nest",
    "Node",
    "Op",
    "Opportunity",
    "Origin",
    "Permission",
    "Permutation",
    "Reduction",
    "RepeatedReads",
    "Staged",
    "Symbol",
    "Term",
    "Traffic",
    "Unknown",
    "Unsure",
    "Wording",
    "analyse",
    "attention_of",
    "axis_values",
    "contraction_words",
    "contractions_of",
    "footprint",
    "moved_by",
    "number_of",
    "opportunities_of",
    "origin",
    "passes_of",
    "permutation_of",
    "read_forms",
    "reductions_of",
    "sizes_of",
    "staged_of",
    "traffic_of",
    "walk",
]  # fmt: skip
