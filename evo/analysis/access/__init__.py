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
from evo.analysis.access.contraction import Contraction
from evo.analysis.access.form import (
    BLOCK,
    THREAD,
    Access,
    Array,
    Barrier,
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
)
from evo.analysis.access.instances import COUNTED, FormSizes, sizes_of
from evo.analysis.access.key_limits import KEY, ROW
from evo.analysis.access.launches import LaunchAnalysis, analyse
from evo.analysis.access.numeric import number_of
from evo.analysis.access.opportunities import contraction_words, opportunities_of
from evo.analysis.access.opportunity import Opportunity
from evo.analysis.access.passes import passes_of
from evo.analysis.access.permutation import Moved, Permutation, moved_by, permutation_of
from evo.analysis.access.read import axis_values
from evo.analysis.access.reductions import Reduction
from evo.analysis.access.source_terms import Wording
from evo.analysis.access.staging import Origin, origin
from evo.analysis.access.terms import Op, Symbol, Term
from evo.analysis.access.traffic import ArrayTraffic

__all__ = [
    "BLOCK", "COUNTED", "KEY", "PLANES", "ROW", "THREAD", "Access", "Array", "ArrayTraffic", "Attention", "Barrier",
    "Branch", "Carried", "Combined", "Compare", "Condition", "Contraction", "Data", "EarlyExit", "Exchange", "Form",
    "FormSizes", "LaunchAnalysis", "Loop", "Moved", "Multiply", "Nest", "Node", "Op", "Opportunity", "Origin",
    "Permutation", "Reduction", "Symbol", "Term", "Unsure", "Wording", "analyse", "attention_of", "axis_values",
    "contraction_words", "moved_by", "number_of", "opportunities_of", "origin", "passes_of", "permutation_of",
    "sizes_of",
]  # fmt: skip
