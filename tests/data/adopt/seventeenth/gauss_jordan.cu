/* Gauss-Jordan elimination: A x = b, no pivoting (matrix is diagonally dominant) */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include "cuda_runtime.h"
#include "device_launch_parameters.h"

#define N 48
#define TPB 16

__global__ void normalize_row(double *A, double *b, int n, int k)
{
	int j = threadIdx.x + blockIdx.x * blockDim.x;
	double p = A[k * n + k];
	if (j > k && j < n)
		A[k * n + j] = A[k * n + j] / p;
	if (j == 0)
		b[k] = b[k] / p;
}

__global__ void eliminate(double *A, double *b, int n, int k)
{
	int j = threadIdx.x + blockIdx.x * blockDim.x;
	int i = threadIdx.y + blockIdx.y * blockDim.y;
	if (i < n && j < n && i != k) {
		double f = A[i * n + k];
		if (j > k)
			A[i * n + j] -= f * A[k * n + j];
		if (j == k)
			b[i] -= f * b[k];
	}
}

int main()
{
	double *A, *b, *x, *dA, *db;
	size_t bytes = N * N * sizeof(double);
	A = (double *)malloc(bytes);
	b = (double *)malloc(N * sizeof(double));
	x = (double *)malloc(N * sizeof(double));
	for (int i = 0; i < N; i++) {
		double s = 0;
		for (int j = 0; j < N; j++) {
			A[i * N + j] = (double)(rand() % 100) / 10.0;
			s += A[i * N + j];
		}
		A[i * N + i] = s + 1.0;
		b[i] = rand() % 50;
	}
	cudaMalloc((void **)&dA, bytes);
	cudaMalloc((void **)&db, N * sizeof(double));
	cudaMemcpy(dA, A, bytes, cudaMemcpyHostToDevice);
	cudaMemcpy(db, b, N * sizeof(double), cudaMemcpyHostToDevice);

	dim3 threads(TPB, TPB);
	dim3 blocks((N + TPB - 1) / TPB, (N + TPB - 1) / TPB);
	for (int k = 0; k < N; k++) {
		normalize_row<<<(N + 255) / 256, 256>>>(dA, db, N, k);
		eliminate<<<blocks, threads>>>(dA, db, N, k);
	}
	cudaDeviceSynchronize();
	cudaMemcpy(x, db, N * sizeof(double), cudaMemcpyDeviceToHost);

	double err = 0;
	for (int i = 0; i < N; i++) {
		double s = 0;
		for (int j = 0; j < N; j++) s += A[i * N + j] * x[j];
		err = fmax(err, fabs(s - b[i]));
	}
	printf("residual %g\n", err);
	cudaFree(dA); cudaFree(db);
	free(A); free(b); free(x);
	return 0;
}
