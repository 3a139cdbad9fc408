// 64-bit minima and maxima with and without a sign, in global and in shared memory.
extern "C" __global__ void k(const long long* a, long long* o) {
  __shared__ long long s;
  long long v = a[blockIdx.x * blockDim.x + threadIdx.x];
  unsigned long long w = v;
  if (threadIdx.x == 0) s = 0x7fffffffffffffffll;
  __syncthreads();
  atomicMin(o, v);
  atomicMax(o + 1, v);
  atomicMin((unsigned long long*)o + 2, w);
  atomicMax((unsigned long long*)o + 3, w);
  atomicAnd((unsigned long long*)o + 4, w);
  atomicMin(&s, v);
  __syncthreads();
  if (threadIdx.x == 0) o[5 + blockIdx.x] = s;
}
