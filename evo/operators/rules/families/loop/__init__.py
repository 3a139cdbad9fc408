"""Rules that take loops apart and put them together."""
