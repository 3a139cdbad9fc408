// evo: task unroll_registers
// evo: launch invert grid (ceil_div(BATCH, 64)) block (64) shared 0
// Gauss-Jordan on 8x8 matrices, one matrix per thread, no pivoting (inputs are diagonally dominant)
template <int N>
struct Augmented {
    float a[N][2 * N];
};

template <int N>
__device__ void load(Augmented<N>& s, const float* src) {
#pragma unroll
    for (int r = 0; r < N; ++r)
        {
#pragma unroll
        for (int c = 0; c < N; ++c) {
            s.a[r][c] = src[r * N + c];
            s.a[r][N + c] = r == c ? 1.f : 0.f;
        }
}
}

template <int N>
__device__ void eliminate(Augmented<N>& s) {
#pragma unroll
    for (int p = 0; p < N; ++p) {
        const float d = 1.f / s.a[p][p];
#pragma unroll
        for (int c = 0; c < 2 * N; ++c) s.a[p][c] *= d;
#pragma unroll
        for (int r = 0; r < N; ++r) {
            if (r == p) continue;
            const float f = s.a[r][p];
#pragma unroll
            for (int c = 0; c < 2 * N; ++c) s.a[r][c] -= f * s.a[p][c];
        }
    }
}

extern "C" __global__ void invert(const float* m, float* inv, int batch) {
    const int id = threadIdx.x + blockIdx.x * blockDim.x;
    if (id >= batch) return;
    Augmented<8> s;
    load(s, m + 64 * id);
    eliminate(s);
#pragma unroll
    for (int e = 0; e < 64; ++e) inv[64 * id + e] = s.a[e / 8][8 + e % 8];
}
