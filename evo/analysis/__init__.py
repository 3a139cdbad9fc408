"""Static analysis of a task, a chip and a source: roofline, measured rates, tile legality."""
