"""Rules that load values before they are needed."""
