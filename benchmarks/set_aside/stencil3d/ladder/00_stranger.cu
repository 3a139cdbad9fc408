// evo: task stencil3d
// evo: launch diffuse grid (ceil_div(Z, 8), ceil_div(Y, 8), ceil_div(X, 4)) block (8, 8, 4) shared 0
#define IDX(i, j, k) (((size_t)(k) * ny + (j)) * nx + (i))
extern "C" __global__ void diffuse(const float* u, float* v, int nx, int ny, int nz) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    int i = blockIdx.z * blockDim.z + threadIdx.z;
    if (i >= nx || j >= ny || k >= nz) return;
    if (i == 0 || j == 0 || k == 0 || i == nx - 1 || j == ny - 1 || k == nz - 1) {
        v[IDX(i, j, k)] = u[IDX(i, j, k)];
        return;
    }
    v[IDX(i, j, k)] = 0.4f * u[IDX(i, j, k)] + 0.1f * (u[IDX(i - 1, j, k)] + u[IDX(i + 1, j, k)] + u[IDX(i, j - 1, k)] +
                                                    u[IDX(i, j + 1, k)] + u[IDX(i, j, k - 1)] + u[IDX(i, j, k + 1)]);
}
