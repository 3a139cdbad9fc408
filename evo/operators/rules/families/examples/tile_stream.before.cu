// evo: task tile_stream
// evo: launch linear grid (ceil_div(M, 16), ceil_div(N, 16)) block (16, 16) shared 0
typedef unsigned int uint;
extern "C" __global__ void linear(const float* a, const float* b, const float* bias, float* c, int M, int N, int K) {
    uint row = blockIdx.x * blockDim.x + threadIdx.x;
    uint col = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < M && col < N) {
        float tmp = 0.0;
        for (int i = 0; i < K; ++i) tmp += a[row * K + i] * b[col * K + i];
        c[row * N + col] = tmp + bias[col];
    }
}
