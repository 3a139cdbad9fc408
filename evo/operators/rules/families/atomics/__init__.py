"""Rules on atomics that meet: what a block, or a thread, adds up before it goes to memory that others share."""
