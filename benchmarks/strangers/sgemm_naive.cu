// the first SGEMM of a textbook: one output a thread
// evo: task sgemm
// evo: launch sgemm grid (ceil_div(N, 16), ceil_div(M, 16)) block (16, 16) shared 0
extern "C" __global__ void sgemm(const float *A, const float *B, float *C, int M, int N, int K) {
    const unsigned int x = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < N && y < M) {
        float tmp = 0.0f;
        for (int i = 0; i < K; ++i) {
            tmp += A[y * K + i] * B[i * N + x];
        }
        C[y * N + x] = tmp;
    }
}
