"""Rules that share out or regroup the work of threads."""
