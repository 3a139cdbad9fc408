"""One candidate in, one result out: prepare, gate, measure, decide."""
