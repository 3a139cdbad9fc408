"""Kernels written anew around tiles in shared memory and registers, from what the access analysis recognises."""
