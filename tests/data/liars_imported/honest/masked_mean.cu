// evo: task   masked_mean
// evo: launch masked_mean grid (ROWS) block (128)
extern "C" __global__ void masked_mean(const float* x, const bool* mask, float* y, int ROWS, int COLS) {
    __shared__ float s[128]; __shared__ float c[128];
    float a = 0, n = 0;
    for (int j = threadIdx.x; j < COLS; j += 128) { const long long at = (long long)blockIdx.x * COLS + j; a += x[at] * mask[at]; n += mask[at]; }
    s[threadIdx.x] = a; c[threadIdx.x] = n; __syncthreads();
    for (int k = 64; k > 0; k /= 2) { if (threadIdx.x < k) { s[threadIdx.x] += s[threadIdx.x + k]; c[threadIdx.x] += c[threadIdx.x + k]; } __syncthreads(); }
    if (threadIdx.x == 0) y[blockIdx.x] =  s[0] / fmaxf(c[0], 1.0f);
}
