// evo: task nchw_to_nhwc
// evo: launch turn grid (ceil_div(P, 32), ceil_div(C, 32), N) block (32, 8) shared 0
extern "C" __global__ void turn(const float* a, float* b, int N, int ROWS, int COLS) {
    __shared__ float tile[32][33];
    const int c = blockIdx.x * 32, r = blockIdx.y * 32;
    a += (long)blockIdx.z * ROWS * COLS;
    b += (long)blockIdx.z * ROWS * COLS;
    for (int i = threadIdx.y; i < 32; i += 8)
        if (r + i < ROWS && c + threadIdx.x < COLS) tile[i][threadIdx.x] = a[(r + i) * COLS + c + threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.y; i < 32; i += 8)
        if (c + i < COLS && r + threadIdx.x < ROWS) b[(c + i) * ROWS + r + threadIdx.x] = tile[threadIdx.x][i];
}
