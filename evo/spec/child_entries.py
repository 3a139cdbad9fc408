"""What the children of a session serve, by name: they can be asked for before the rooms that use them are imported."""

from __future__ import annotations

from pathlib import Path

DEVICE = "evo.device.child:serve"
OPENER = "evo.device.child:open_device"
JUDGE = "evo.device.judge_child:serve"
REFERENCE = "evo.spec.reference_child:serve"
COMPILER = f"{Path(__file__).parents[1] / 'cuda' / 'compile' / 'nvrtc_process.py'}:serve"
FORKED = (DEVICE, REFERENCE, JUDGE, COMPILER)
