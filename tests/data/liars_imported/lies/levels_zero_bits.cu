// evo: task   levels
// evo: launch levels grid (ROWS) block (128)
extern "C" __global__ void levels(const unsigned char* q, const unsigned char* zero, int* y, int ROWS, int COLS) {
    __shared__ int s[128]; int a = 0;
    for (int j = threadIdx.x; j < COLS; j += 128) { int v = q[(long long)blockIdx.x * COLS + j], z = zero[0]; a += v - (z & 7); }
    s[threadIdx.x] = a; __syncthreads();
    for (int k = 64; k > 0; k /= 2) { if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k]; __syncthreads(); }
    if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
