// lbm.cu - D2Q5 advection-diffusion, from chapter 4 of my thesis. Units are lattice units.
// usage: ./lbm NX NY STEPS
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <algorithm>

typedef float real;
#define Q 5
#define IDX(x, y, q) ((size_t)(q) * p.nx * p.ny + (size_t)(y) * p.nx + (x))
#define NODE(x, y) ((size_t)(y) * p.nx + (x))
#define CUDA_SAFE(call)                                                                    \
    do {                                                                                   \
        cudaError_t err = (call);                                                          \
        if (err != cudaSuccess) {                                                          \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err));   \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

struct Params {
    int nx, ny;
    real omega;      // relaxation
    real ux, uy;     // imposed velocity
};

__constant__ real w[Q] = {1.f / 3, 1.f / 6, 1.f / 6, 1.f / 6, 1.f / 6};
__constant__ int cx[Q] = {0, 1, 0, -1, 0};
__constant__ int cy[Q] = {0, 0, 1, 0, -1};

__device__ __forceinline__ real equilibrium(int q, real rho, const Params& p) {
    return w[q] * rho * (1 + 3 * (cx[q] * p.ux + cy[q] * p.uy));
}

__global__ void step(const real* __restrict__ f, real* __restrict__ fnew, real* rho_out, Params p) {
    int x = threadIdx.x + blockIdx.x * blockDim.x;
    int y = threadIdx.y + blockIdx.y * blockDim.y;
    if (x >= p.nx || y >= p.ny) return;
    real fl[Q];
    real rho = 0;
    for (int q = 0; q < Q; q++) {
        int xs = (x - cx[q] + p.nx) % p.nx;
        int ys = (y - cy[q] + p.ny) % p.ny;
        fl[q] = f[IDX(xs, ys, q)];
        rho += fl[q];
    }
    rho_out[NODE(x, y)] = rho;
    for (int q = 0; q < Q; q++)
        fnew[IDX(x, y, q)] = fl[q] - p.omega * (fl[q] - equilibrium(q, rho, p));
}

static inline unsigned divup(unsigned a, unsigned b) { return (a + b - 1) / b; }

class Timer {
    cudaEvent_t a, b;
public:
    Timer() { cudaEventCreate(&a); cudaEventCreate(&b); }
    void start() { cudaEventRecord(a); }
    float stop() { cudaEventRecord(b); cudaEventSynchronize(b); float ms; cudaEventElapsedTime(&ms, a, b); return ms; }
};

int main(int argc, char** argv) {
    Params p;
    p.nx = argc > 1 ? atoi(argv[1]) : 512;
    p.ny = argc > 2 ? atoi(argv[2]) : 512;
    int steps = argc > 3 ? atoi(argv[3]) : 100;
    p.omega = 1.0f / 0.8f;
    p.ux = 0.1f;
    p.uy = 0.05f;

    size_t nodes = (size_t)p.nx * p.ny;
    real *f0, *f1, *rho;
    CUDA_SAFE(cudaMallocManaged(&f0, Q * nodes * sizeof(real)));
    CUDA_SAFE(cudaMallocManaged(&f1, Q * nodes * sizeof(real)));
    CUDA_SAFE(cudaMallocManaged(&rho, nodes * sizeof(real)));
    for (int y = 0; y < p.ny; y++)
        for (int x = 0; x < p.nx; x++)
            for (int q = 0; q < Q; q++)
                f0[IDX(x, y, q)] = (x == p.nx / 2 && y == p.ny / 2) ? 1.0f : 0.01f;

    dim3 threads(32, 8);
    dim3 blocks(divup(p.nx, threads.x), divup(p.ny, threads.y));
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    Timer t;
    t.start();
    for (int s = 0; s < steps; s++) {
        step<<<blocks, threads, 0, stream>>>(f0, f1, rho, p);
        std::swap(f0, f1);
    }
    CUDA_SAFE(cudaStreamSynchronize(stream));
    float ms = t.stop();
    double mlups = 1e-3 * nodes * steps / ms;
    printf("%d x %d: %.2f MLUPS\n", p.nx, p.ny, mlups);
    double total = 0;
    for (size_t i = 0; i < nodes; i++) total += rho[i];
    printf("mass %.8f\n", total);
    cudaFree(f0); cudaFree(f1); cudaFree(rho);
    return 0;
}
