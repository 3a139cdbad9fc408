#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cuda.h>

#define INF 1000000000
#define BLOCK_SIZE 16

#define OK(call) do { if ((call) != cudaSuccess) { printf("failed in line %d\n", __LINE__); exit(1); } } while (0)

// one step k of Floyd-Warshall
__global__ void fw_step(int *dist, int *next, int n, int k) {
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && j < n) {
        int through = dist[i * n + k] + dist[k * n + j];
        if (through < dist[i * n + j]) {
            dist[i * n + j] = through;
            next[i * n + j] = next[i * n + k];
        }
    }
}

void floyd_warshall_cpu(int *d, int n) {
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                if (d[i*n+k] + d[k*n+j] < d[i*n+j]) d[i*n+j] = d[i*n+k] + d[k*n+j];
}

int main(int argc, char **argv) {
    int n = 512;
    if (argc >= 2) n = atoi(argv[1]);
    int density = 25;
    size_t size = (size_t)n * n * sizeof(int);
    int *h_dist = (int *)malloc(size), *h_next = (int *)malloc(size), *ref = (int *)malloc(size);

    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            if (i == j) h_dist[i * n + j] = 0;
            else if (rand() % 100 < density) h_dist[i * n + j] = 1 + rand() % 100;
            else h_dist[i * n + j] = INF;
            h_next[i * n + j] = j;
        }
    memcpy(ref, h_dist, size);

    int *d_dist, *d_next;
    OK(cudaMalloc(&d_dist, size));
    OK(cudaMalloc(&d_next, size));
    OK(cudaMemcpy(d_dist, h_dist, size, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(d_next, h_next, size, cudaMemcpyHostToDevice));

    dim3 block(BLOCK_SIZE, BLOCK_SIZE);
    dim3 grid((n + block.x - 1) / block.x, (n + block.y - 1) / block.y);
    for (int k = 0; k < n; k++)
        fw_step<<<grid, block>>>(d_dist, d_next, n, k);
    OK(cudaPeekAtLastError());
    OK(cudaDeviceSynchronize());

    OK(cudaMemcpy(h_dist, d_dist, size, cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(h_next, d_next, size, cudaMemcpyDeviceToHost));
    floyd_warshall_cpu(ref, n);
    printf("%s\n", memcmp(ref, h_dist, size) == 0 ? "PASS" : "FAIL");
    return 0;
}
