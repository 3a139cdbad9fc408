"""Which thread and which block does what, and in what order."""
