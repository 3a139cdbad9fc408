// Bins are counted without atomics.
// fault: race
// like: clean/histogram_shared.cu
extern "C" __global__ void k(const unsigned char* x, unsigned* y, int n) {
  __shared__ unsigned s[256];
  for (int b = threadIdx.x; b < 256; b += blockDim.x) s[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s[x[i]]++;  // FAULT
  __syncthreads();
  for (int b = threadIdx.x; b < 256; b += blockDim.x) if (s[b]) atomicAdd(&y[b], s[b]);
}
