// Row pointers end at rows.
// fault: out_of_bounds
// like: clean/csr_scalar.cu
extern "C" __global__ void k(const int* start, const int* col, const float* val, const float* x, float* y, int rows) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r > rows) return;
  float s = 0;
  for (int j = start[r]; j < start[r + 1]; j++)  // FAULT
    s += val[j] * x[col[j]];
  y[r] = s;
}
