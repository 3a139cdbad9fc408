"""`evo adopt`: a task and a first variant from a `.cu` file as people have it, with host code.

The host code is run as far as it decides sizes, allocations and launches; the kernels that are launched are lifted out;
the simulator then runs them, to find what the text does not say and to serve as the reference.
"""

from evo.interop.adopt.adopting import Adopted, Options, adopt, task_name

__all__ = ["Adopted", "Options", "adopt", "task_name"]
