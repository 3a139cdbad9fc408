"""Import and export: problems of other benchmarks become task folders, champions become packages.

What is imported is foreign code: it runs in child processes with a time limit, never in the process of the command.
"""
