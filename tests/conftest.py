"""What holds for every test: the processes that they start share their byte code."""

from __future__ import annotations

import os
import sys

# Tests start evo hundreds of times. Where byte code is not written (containers often ask for that), each of those
# processes would compile all of evo first, which is a third of what a short command takes.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
