"""Arrays of a thread and counted loops, unrolled."""
