// The minimum of the block is used before it is set.
// fault: race or uninitialised
// like: clean/extremes_64.cu
extern "C" __global__ void k(const long long* a, long long* o) {
  __shared__ long long s;
  long long v = a[blockIdx.x * blockDim.x + threadIdx.x];
  unsigned long long w = v;
  if (threadIdx.x == 0) s = 0x7fffffffffffffffll;  // FAULT
  atomicMin(o, v);
  atomicMax(o + 1, v);
  atomicMin((unsigned long long*)o + 2, w);
  atomicMax((unsigned long long*)o + 3, w);
  atomicAnd((unsigned long long*)o + 4, w);
  atomicMin(&s, v);  // FAULT
  __syncthreads();
  if (threadIdx.x == 0) o[5 + blockIdx.x] = s;
}
