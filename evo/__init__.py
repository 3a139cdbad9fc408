"""evo improves CUDA kernels one verified mutation at a time."""

__version__ = "0.1.0"
