// HW3 - k nearest neighbours, step 1: all pairwise distances
// compile: nvcc -O2 -o knn pairwise_dist.cu
#include <cuda_runtime.h>
#include <cmath>
#include <iostream>
#include <vector>
#include <random>

using namespace std;

const int BLOCK = 16;

__device__ inline float sq(float v) { return v * v; }

__global__ void distances(const float* __restrict__ queries, const float* __restrict__ points,
                          float* __restrict__ dist, int nq, int np, int dim)
{
    int q = blockIdx.y * blockDim.y + threadIdx.y;
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= nq || p >= np) return;
    float s = 0.f;
    for (int d = 0; d < dim; d++)
        s += sq(queries[q * dim + d] - points[p * dim + d]);
    dist[q * np + p] = sqrtf(s);
}

int main(int argc, char** argv)
{
    int nq = 256, np = 512, dim = 64;
    if (argc > 1) nq = atoi(argv[1]);
    if (argc > 2) np = atoi(argv[2]);

    mt19937 gen(42);
    uniform_real_distribution<float> uni(-1, 1);
    vector<float> Q(nq * dim), P(np * dim), D(nq * np);
    for (auto& v : Q) v = uni(gen);
    for (auto& v : P) v = uni(gen);

    float *d_q, *d_p, *d_d;
    cudaMalloc(&d_q, Q.size() * sizeof(float));
    cudaMalloc(&d_p, P.size() * sizeof(float));
    cudaMalloc(&d_d, D.size() * sizeof(float));
    cudaMemcpy(d_q, Q.data(), Q.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_p, P.data(), P.size() * sizeof(float), cudaMemcpyHostToDevice);

    dim3 block(BLOCK, BLOCK);
    dim3 grid((np + BLOCK - 1) / BLOCK, (nq + BLOCK - 1) / BLOCK);
    distances<<<grid, block>>>(d_q, d_p, d_d, nq, np, dim);
    cudaError_t e = cudaGetLastError();
    if (e != cudaSuccess) { cerr << cudaGetErrorString(e) << endl; return 1; }

    cudaMemcpy(D.data(), d_d, D.size() * sizeof(float), cudaMemcpyDeviceToHost);
    cout << "d(0,0) = " << D[0] << endl;
    cudaFree(d_q); cudaFree(d_p); cudaFree(d_d);
}
