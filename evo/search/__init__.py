"""The loop: choose, evaluate, keep; restarts, the pool of workers, knob search."""
