// evo: task sgemm_uint
// evo: launch sgemm_coalesced grid (ceil_div(M, 32), ceil_div(N, 32)) block (1024) shared 0
typedef unsigned int uint;
template <const uint BLOCKSIZE>
__device__ void body(const float *A, const float *B, float *C, int M, int N, int K) {
  const int cRow = blockIdx.x * BLOCKSIZE + (threadIdx.x / BLOCKSIZE);
  const int cCol = blockIdx.y * BLOCKSIZE + (threadIdx.x % BLOCKSIZE);
  if (cRow < M && cCol < N) {
    float tmp = 0.0;
    for (int i = 0; i < K; ++i) {
      tmp += A[cRow * K + i] * B[i * N + cCol];
    }
    C[cRow * N + cCol] = tmp;
  }
}
extern "C" __global__ void sgemm_coalesced(const float *A, const float *B, float *C, int M, int N, int K) {
  body<32>(A, B, C, M, N, K);
}
