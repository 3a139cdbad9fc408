"""The run-time support of generated kernels, itself written as LLVM IR: one small function per need, made on demand."""
