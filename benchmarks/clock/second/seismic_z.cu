// A stencil of radius four in a volume: planes in shared memory, the third axis in a queue of registers.
// sizes N=2097152 W=128
// evo: task clock
// evo: knob BX in 16, 32, 64
// evo: knob BY in 4, 8, 16
// evo: knob CHUNK in 8, 16, 32
// evo: require BX * BY <= 1024
// evo: launch wave grid (128 // BX, 128 // BY, 128 // CHUNK) block (BX, BY) shared 0
#define BX 16
#define BY 4
#define CHUNK 8
#define R 4
extern "C" __global__ void wave(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    __shared__ float plane[BY + 2 * R][BX + 2 * R];
    constexpr int SIDE = 128, AREA = SIDE * SIDE;
    const int x0 = blockIdx.x * BX, y0 = blockIdx.y * BY, z0 = blockIdx.z * CHUNK;
    const int x = x0 + threadIdx.x, y = y0 + threadIdx.y;
    float q[2 * R + 1];
#pragma unroll
    for (int k = 0; k < 2 * R; ++k) q[k] = a[min(max(z0 + k - R, 0), SIDE - 1) * AREA + y * SIDE + x];
    for (int z = z0; z < z0 + CHUNK; ++z) {
        q[2 * R] = a[min(z + R, SIDE - 1) * AREA + y * SIDE + x];
        for (int j = threadIdx.y; j < BY + 2 * R; j += BY)
            for (int i = threadIdx.x; i < BX + 2 * R; i += BX)
                plane[j][i] = a[z * AREA + min(max(y0 + j - R, 0), SIDE - 1) * SIDE + min(max(x0 + i - R, 0), SIDE - 1)];
        __syncthreads();
        float sum = -2.5f * q[R];
#pragma unroll
        for (int r = 1; r <= R; ++r)
            sum += (0.5f / r) * (q[R - r] + q[R + r] + plane[threadIdx.y + R - r][threadIdx.x + R] + plane[threadIdx.y + R + r][threadIdx.x + R]
                                 + plane[threadIdx.y + R][threadIdx.x + R - r] + plane[threadIdx.y + R][threadIdx.x + R + r]);
        out[z * AREA + y * SIDE + x] = 2.f * q[R] - b[z * AREA + y * SIDE + x] + 0.1f * sum;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 2 * R; ++k) q[k] = q[k + 1];
    }
}
