"""Rules that move neighbouring elements in one instruction."""
