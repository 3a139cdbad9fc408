// Counts begin while other warps still clear.
// fault: race or uninitialised
// like: clean/histogram_shared.cu
// Histogram in shared memory, added up with global atomics.
extern "C" __global__ void k(const unsigned char* x, unsigned* y, int n) {
  __shared__ unsigned s[256];
  for (int b = threadIdx.x; b < 256; b += blockDim.x) s[b] = 0;  // FAULT
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&s[x[i]], 1);  // FAULT
  __syncthreads();
  for (int b = threadIdx.x; b < 256; b += blockDim.x) if (s[b]) atomicAdd(&y[b], s[b]);
}
