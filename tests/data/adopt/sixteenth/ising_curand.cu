// 2D Ising model, checkerboard Metropolis. Random numbers come from the cuRAND host API.
#include <cuda_runtime.h>
#include <curand.h>
#include <cstdio>
#include <cstdint>
#include <cstdlib>
#include <getopt.h>

#define CHECK_CUDA(call) { auto status = call; if (status != cudaSuccess) { printf("CUDA error: %s line %d\n", cudaGetErrorString(status), __LINE__); exit(EXIT_FAILURE);} }
#define CHECK_CURAND(call) { auto status = call; if (status != CURAND_STATUS_SUCCESS) { printf("curand error %d line %d\n", (int)status, __LINE__); exit(EXIT_FAILURE);} }

constexpr int THREADS = 128;

__global__ void init_spins(signed char* lattice, const float* __restrict__ randvals, const long long nx, const long long ny)
{
    const long long tid = static_cast<long long>(blockDim.x) * blockIdx.x + threadIdx.x;
    if (tid >= nx * ny) return;
    float randval = randvals[tid];
    signed char val = (randval < 0.5f) ? -1 : 1;
    lattice[tid] = val;
}

template <bool is_black>
__global__ void update_lattice(signed char* lattice, const signed char* __restrict__ op_lattice,
                               const float* __restrict__ randvals, const float inv_temp,
                               const long long nx, const long long ny)
{
    const long long tid = static_cast<long long>(blockDim.x) * blockIdx.x + threadIdx.x;
    const int i = tid / ny;
    const int j = tid % ny;
    if (i >= nx || j >= ny) return;

    // Set stencil indices with periodicity
    int ipp = (i + 1 < nx) ? i + 1 : 0;
    int inn = (i - 1 >= 0) ? i - 1 : nx - 1;
    int jpp = (j + 1 < ny) ? j + 1 : 0;
    int jnn = (j - 1 >= 0) ? j - 1 : ny - 1;

    // Select off-column index based on color and row index parity
    int joff;
    if (is_black) {
        joff = (i % 2) ? jpp : jnn;
    } else {
        joff = (i % 2) ? jnn : jpp;
    }
    signed char nn_sum = op_lattice[inn * ny + j] + op_lattice[i * ny + j] + op_lattice[ipp * ny + j] + op_lattice[i * ny + joff];
    signed char lij = lattice[i * ny + j];
    float acceptance_ratio = exp(-2.0f * inv_temp * nn_sum * lij);
    if (randvals[i * ny + j] < acceptance_ratio) {
        lattice[i * ny + j] = -lij;
    }
}

int main(int argc, char **argv)
{
    long long nx = 2048, ny = 2048;
    float alpha = 0.1f;
    int niters = 100;
    while (1) {
        static struct option long_options[] = {{"lattice-n", required_argument, 0, 'x'}, {"nwarmup", required_argument, 0, 'w'}, {0, 0, 0, 0}};
        int option_index = 0;
        int ch = getopt_long(argc, argv, "x:y:a:n:", long_options, &option_index);
        if (ch == -1) break;
        switch (ch) {
        case 'x': nx = atoll(optarg); break;
        case 'y': ny = atoll(optarg); break;
        case 'a': alpha = atof(optarg); break;
        case 'n': niters = atoi(optarg); break;
        }
    }
    if (nx % 2 != 0 || ny % 2 != 0) { fprintf(stderr, "ERROR: Lattice dimensions must be even values.\n"); exit(EXIT_FAILURE); }
    float inv_temp = 1.0f / (alpha * 2.26918531421f);

    curandGenerator_t rng;
    CHECK_CURAND(curandCreateGenerator(&rng, CURAND_RNG_PSEUDO_PHILOX4_32_10));
    CHECK_CURAND(curandSetPseudoRandomGeneratorSeed(rng, 1234ULL));
    float *randvals;
    CHECK_CUDA(cudaMalloc(&randvals, nx * ny / 2 * sizeof(*randvals)));
    signed char *lattice_b, *lattice_w;
    CHECK_CUDA(cudaMalloc(&lattice_b, nx * ny / 2 * sizeof(*lattice_b)));
    CHECK_CUDA(cudaMalloc(&lattice_w, nx * ny / 2 * sizeof(*lattice_w)));

    int blocks = (nx * ny / 2 + THREADS - 1) / THREADS;
    CHECK_CURAND(curandGenerateUniform(rng, randvals, nx * ny / 2));
    init_spins<<<blocks, THREADS>>>(lattice_b, randvals, nx, ny / 2);
    CHECK_CURAND(curandGenerateUniform(rng, randvals, nx * ny / 2));
    init_spins<<<blocks, THREADS>>>(lattice_w, randvals, nx, ny / 2);

    for (int i = 0; i < niters; i++) {
        CHECK_CURAND(curandGenerateUniform(rng, randvals, nx * ny / 2));
        update_lattice<true><<<blocks, THREADS>>>(lattice_b, lattice_w, randvals, inv_temp, nx, ny / 2);
        CHECK_CURAND(curandGenerateUniform(rng, randvals, nx * ny / 2));
        update_lattice<false><<<blocks, THREADS>>>(lattice_w, lattice_b, randvals, inv_temp, nx, ny / 2);
        if (i % 1000 == 0) printf("Completed %d/%d iterations...\n", i + 1, niters);
    }
    CHECK_CUDA(cudaDeviceSynchronize());
    signed char *h = (signed char*)malloc(nx * ny / 2);
    CHECK_CUDA(cudaMemcpy(h, lattice_b, nx * ny / 2, cudaMemcpyDeviceToHost));
    return 0;
}
