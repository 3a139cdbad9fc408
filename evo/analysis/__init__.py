"""What follows from a task, a chip and a source without running it: roofline, measured rates, tile legality."""
