"""A syntax tree of PTX to LLVM IR: control flow, divergence, barriers; one emitter per instruction group (`isa`)."""
