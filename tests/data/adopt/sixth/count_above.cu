// Lab 4: atomics.  Count the readings above a threshold and find the largest one.
#include <stdio.h>
#include <stdlib.h>
#include <limits.h>
#include <time.h>

#define N (1 << 20)
#define THREADS 256

__global__ void analyse(const int *readings, int threshold, unsigned int *above, int *largest, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int r = readings[i];
        if (r > threshold) {
            atomicAdd(above, 1u);
        }
        atomicMax(largest, r);
    }
}

int main(void) {
    int *h_readings = (int *)malloc(N * sizeof(int));
    srand(time(NULL));
    for (int i = 0; i < N; i++) h_readings[i] = rand() % 10000;

    int *d_readings, *d_largest;
    unsigned int *d_above;
    cudaMalloc(&d_readings, N * sizeof(int));
    cudaMalloc(&d_above, sizeof(unsigned int));
    cudaMalloc(&d_largest, sizeof(int));
    cudaMemcpy(d_readings, h_readings, N * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemset(d_above, 0, sizeof(unsigned int));
    int lowest = INT_MIN;
    cudaMemcpy(d_largest, &lowest, sizeof(int), cudaMemcpyHostToDevice);

    analyse<<<(N + THREADS - 1) / THREADS, THREADS>>>(d_readings, 5000, d_above, d_largest, N);

    unsigned int above;
    int largest;
    cudaMemcpy(&above, d_above, sizeof(unsigned int), cudaMemcpyDeviceToHost);
    cudaMemcpy(&largest, d_largest, sizeof(int), cudaMemcpyDeviceToHost);
    printf("%u readings above 5000, the largest is %d\n", above, largest);

    cudaFree(d_readings);
    cudaFree(d_above);
    cudaFree(d_largest);
    free(h_readings);
    return 0;
}
