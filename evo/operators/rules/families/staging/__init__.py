"""Rules that keep in shared memory what a block reads more than once."""
