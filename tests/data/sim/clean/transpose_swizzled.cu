// Transposition through a tile without padding, columns turned by XOR.
extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ float s[32 * 32];
  int tx = threadIdx.x, c = blockIdx.x * 32, r = blockIdx.y * 32;
  for (int j = threadIdx.y; j < 32; j += 8) s[j * 32 + (tx ^ j)] = x[(r + j) * n + c + tx];
  __syncthreads();
  for (int j = threadIdx.y; j < 32; j += 8) y[(c + j) * n + r + tx] = s[tx * 32 + (j ^ tx)];
}
