"""Samples or estimates in, verdict out; pure functions."""
