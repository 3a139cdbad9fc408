"""Declarations: task.yaml, kernel headers and launch plans, a task's reference, the chip tables."""
