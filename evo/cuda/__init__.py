"""CUDA C++ text: syntax tree and edits (source), compilation to PTX and machine code with no GPU (compile)."""
