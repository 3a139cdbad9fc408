// Lennard-Jones forces over a neighbour list (master's thesis, appendix B).
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

class Grid {
public:
    Grid(int side, float spacing) : side_(side), spacing_(spacing) {}
    int particles() const { return side_ * side_ * side_; }
    void positions(std::vector<float>& x, std::vector<float>& y, std::vector<float>& z) const {
        for (int i = 0; i < side_; ++i)
            for (int j = 0; j < side_; ++j)
                for (int k = 0; k < side_; ++k) {
                    x.push_back(i * spacing_);
                    y.push_back(j * spacing_);
                    z.push_back(k * spacing_);
                }
    }

private:
    int side_;
    float spacing_;
};

__global__ void lj_force(const float* x, const float* y, const float* z, const int* neighbours, const int max_neigh,
                         const int n, const float cutoff2, const float epsilon, const float sigma2, float* fx,
                         float* fy, float* fz) {
    const int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i < n) {
        const float xi = x[i], yi = y[i], zi = z[i];
        float ax = 0.f, ay = 0.f, az = 0.f;
        for (int m = 0; m < max_neigh; ++m) {
            const int j = neighbours[i * max_neigh + m];
            if (j < 0) continue;
            const float dx = xi - x[j], dy = yi - y[j], dz = zi - z[j];
            const float r2 = dx * dx + dy * dy + dz * dz;
            if (r2 < cutoff2 && r2 > 1e-6f) {
                const float s2 = sigma2 / r2;
                const float s6 = s2 * s2 * s2;
                const float f = 24.f * epsilon * s6 * (2.f * s6 - 1.f) / r2;
                ax += f * dx;
                ay += f * dy;
                az += f * dz;
            }
        }
        fx[i] = ax;
        fy[i] = ay;
        fz[i] = az;
    }
}

int main() {
    Grid grid(16, 1.1f);
    const int n = grid.particles();
    const int max_neigh = 32;
    std::vector<float> x, y, z;
    grid.positions(x, y, z);
    std::vector<int> neighbours(n * max_neigh);
    for (int i = 0; i < n; ++i) {
        for (int m = 0; m < max_neigh; ++m) {
            int j = rand() % n;
            if (j == i)
                neighbours[i * max_neigh + m] = -1;
            else
                neighbours[i * max_neigh + m] = j;
        }
    }

    float *dx, *dy, *dz, *dfx, *dfy, *dfz;
    int* dn;
    size_t bytes = n * sizeof(float);
    cudaMalloc(&dx, bytes); cudaMalloc(&dy, bytes); cudaMalloc(&dz, bytes);
    cudaMalloc(&dfx, bytes); cudaMalloc(&dfy, bytes); cudaMalloc(&dfz, bytes);
    cudaMalloc(&dn, n * max_neigh * sizeof(int));
    cudaMemcpy(dx, x.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(dz, z.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(dn, neighbours.data(), neighbours.size() * sizeof(int), cudaMemcpyHostToDevice);

    const int block = 128;
    lj_force<<<(n + block - 1) / block, block>>>(dx, dy, dz, dn, max_neigh, n, 6.25f, 1.0f, 1.0f, dfx, dfy, dfz);
    cudaDeviceSynchronize();

    std::vector<float> fx(n), fy(n), fz(n);
    cudaMemcpy(fx.data(), dfx, bytes, cudaMemcpyDeviceToHost);
    cudaMemcpy(fy.data(), dfy, bytes, cudaMemcpyDeviceToHost);
    cudaMemcpy(fz.data(), dfz, bytes, cudaMemcpyDeviceToHost);
    printf("f[0] = %f %f %f\n", fx[0], fy[0], fz[0]);
    return 0;
}
