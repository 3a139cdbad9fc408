/* Assignment 3: heat diffusion on a plate with holes. */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda.h>

#define NX 512
#define NY 512
#define STEPS 100
#define IDX(r, c) ((r) * NX + (c))

__global__ void heat_step(const float *t_old, float *t_new, const int *kind, float k)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (c >= NX || r >= NY) return;
    int me = IDX(r, c);
    if (kind[me] == 1) {            /* a fixed temperature */
        t_new[me] = t_old[me];
        return;
    }
    if (kind[me] == 2) {            /* a hole */
        t_new[me] = 0.0f;
        return;
    }
    float up = t_old[IDX(r - 1, c)], down = t_old[IDX(r + 1, c)];
    float left = t_old[IDX(r, c - 1)], right = t_old[IDX(r, c + 1)];
    t_new[me] = t_old[me] + k * (up + down + left + right - 4.0f * t_old[me]);
}

int main(void)
{
    size_t bytes = NX * NY * sizeof(float);
    float *h_t = (float *)malloc(bytes);
    int *h_kind = (int *)malloc(NX * NY * sizeof(int));
    for (int r = 0; r < NY; r++) {
        for (int c = 0; c < NX; c++) {
            if (r == 0 || r == NY - 1 || c == 0 || c == NX - 1) {
                h_kind[IDX(r, c)] = 1;
                h_t[IDX(r, c)] = 100.0f;
            } else if ((r - NY / 2) * (r - NY / 2) + (c - NX / 2) * (c - NX / 2) < 400) {
                h_kind[IDX(r, c)] = 2;
                h_t[IDX(r, c)] = 0.0f;
            } else {
                h_kind[IDX(r, c)] = 0;
                h_t[IDX(r, c)] = 20.0f;
            }
        }
    }

    float *d_a, *d_b;
    int *d_kind;
    cudaMalloc((void **)&d_a, bytes);
    cudaMalloc((void **)&d_b, bytes);
    cudaMalloc((void **)&d_kind, NX * NY * sizeof(int));
    cudaMemcpy(d_a, h_t, bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(d_kind, h_kind, NX * NY * sizeof(int), cudaMemcpyHostToDevice);

    dim3 threads(16, 16);
    dim3 blocks((NX + threads.x - 1) / threads.x, (NY + threads.y - 1) / threads.y);
    for (int s = 0; s < STEPS; s++) {
        heat_step<<<blocks, threads>>>(d_a, d_b, d_kind, 0.2f);
        float *tmp = d_a;
        d_a = d_b;
        d_b = tmp;
    }
    cudaMemcpy(h_t, d_a, bytes, cudaMemcpyDeviceToHost);
    printf("centre: %f\n", h_t[IDX(NY / 4, NX / 4)]);
    cudaFree(d_a); cudaFree(d_b); cudaFree(d_kind);
    free(h_t); free(h_kind);
    return 0;
}
