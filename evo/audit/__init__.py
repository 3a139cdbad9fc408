"""Checks of the harness and of champions: the red team, the nightly run."""
