// evo: task column_mean
// evo: scratch parts float32 [32, C]
// evo: launch part grid (ceil_div(C, 32), 32) block (32, 16) shared 0
// evo: launch finish grid (ceil_div(C, 128)) block (128) shared 0
extern "C" __global__ void part(const float* x, float* m, float* parts, int R, int C) {
    __shared__ float found[16][33];
    const int c = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    if (c < C)
        #pragma unroll 8
        for (int r = blockIdx.y * 16 + threadIdx.y; r < R; r += 512) sum += x[r * C + c];
    found[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || c >= C) return;
    for (int i = 1; i < 16; ++i) sum += found[i][threadIdx.x];
    parts[blockIdx.y * C + c] = sum;
}
extern "C" __global__ void finish(const float* x, float* m, float* parts, int R, int C) {
    const int c = blockIdx.x * 128 + threadIdx.x;
    if (c >= C) return;
    float sum = 0;
    for (int i = 0; i < 32; ++i) sum += parts[i * C + c];
    m[c] = sum / R;
}
