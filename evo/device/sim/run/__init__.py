"""The run-time support of generated kernels, itself written as LLVM IR: one small function per need, made on demand."""

from __future__ import annotations

from evo.device.sim.run.registry import Runtime, declare

__all__ = ["Runtime", "declare"]
