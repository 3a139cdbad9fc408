/* Bellman-Ford, assignment 4.  One thread per edge. */
#include <stdio.h>
#include <stdlib.h>
#include <limits.h>
#include <cuda.h>

#define BLOCK 256
#define INF 1000000000
#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line)
{
   if (code != cudaSuccess) {
      fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
      exit(code);
   }
}

typedef struct { int from, to, weight; } Edge;

__global__ void init(int *dist, int n, int source)
{
    int v = threadIdx.x + blockIdx.x * blockDim.x;
    if (v < n) dist[v] = (v == source) ? 0 : INF;
}

__global__ void relax(const Edge *edges, const int *old_dist, int *dist, int m)
{
    int e = threadIdx.x + blockIdx.x * blockDim.x;
    if (e < m) {
        Edge ed = edges[e];
        int d = old_dist[ed.from];
        if (d < INF) atomicMin(&dist[ed.to], d + ed.weight);
    }
}

int main(int argc, char *argv[])
{
    int n = 10000, m = 160000;
    Edge *h_edges = (Edge *)malloc(m * sizeof(Edge));
    for (int i = 0; i < m; i++) {
        h_edges[i].from = rand() % n;
        h_edges[i].to = rand() % n;
        h_edges[i].weight = rand() % 100 + 1;
    }
    int *h_dist = (int *)malloc(n * sizeof(int));
    for (int i = 0; i < n; i++) h_dist[i] = i == 0 ? 0 : INF;
    Edge *d_edges;
    int *d_old, *d_dist;
    gpuErrchk(cudaMalloc((void **)&d_edges, m * sizeof(Edge)));
    gpuErrchk(cudaMalloc((void **)&d_old, n * sizeof(int)));
    gpuErrchk(cudaMalloc((void **)&d_dist, n * sizeof(int)));
    gpuErrchk(cudaMemcpy(d_edges, h_edges, m * sizeof(Edge), cudaMemcpyHostToDevice));
    gpuErrchk(cudaMemcpy(d_old, h_dist, n * sizeof(int), cudaMemcpyHostToDevice));
    gpuErrchk(cudaMemcpy(d_dist, h_dist, n * sizeof(int), cudaMemcpyHostToDevice));

    relax<<<(m + BLOCK - 1) / BLOCK, BLOCK>>>(d_edges, d_old, d_dist, m);
    gpuErrchk(cudaPeekAtLastError());
    gpuErrchk(cudaMemcpy(h_dist, d_dist, n * sizeof(int), cudaMemcpyDeviceToHost));
    printf("%d\n", h_dist[n - 1]);
    cudaFree(d_edges); cudaFree(d_old); cudaFree(d_dist);
    free(h_edges); free(h_dist);
    return 0;
}
