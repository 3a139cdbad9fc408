// SGEMM with tiles in shared memory, flat arrays, guards in ternaries
// evo: task sgemm
// evo: launch mm grid (ceil_div(N, TS), ceil_div(M, TS)) block (TS, TS) shared 0
// evo: knob TS in 8, 16, 32
#define TS 16
extern "C" __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K)
{
  __shared__ float As[TS * TS];
  __shared__ float Bs[TS * TS];
  const int row = blockIdx.y * TS + threadIdx.y, col = blockIdx.x * TS + threadIdx.x;
  float acc = 0;
  for (int t = 0; t < K; t += TS)
  {
    As[threadIdx.y * TS + threadIdx.x] = (row < M && t + threadIdx.x < K) ? A[row * K + t + threadIdx.x] : 0;
    Bs[threadIdx.y * TS + threadIdx.x] = (col < N && t + threadIdx.y < K) ? B[(t + threadIdx.y) * N + col] : 0;
    __syncthreads();
    for (int k = 0; k < TS; ++k) acc += As[threadIdx.y * TS + k] * Bs[k * TS + threadIdx.x];
    __syncthreads();
  }
  if (row < M && col < N) C[row * N + col] = acc;
}
