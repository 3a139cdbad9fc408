// I'm trying to do a 7 point laplacian on a cube. It gives the right answer but is much slower
// than I expected, any ideas? GTX 1060, CUDA 10.2
#include <stdio.h>
#include <stdlib.h>

#define IDX(i,j,k) ((i) + side*((j) + side*(k)))

__global__ void laplace(double *out, const double *in, int side, double h2)
{
    int k = blockIdx.x*blockDim.x + threadIdx.x;
    int j = blockIdx.y*blockDim.y + threadIdx.y;
    int i = blockIdx.z*blockDim.z + threadIdx.z;
    if (i >= side || j >= side || k >= side) return;
    if (i == 0 || j == 0 || k == 0 || i == side-1 || j == side-1 || k == side-1) {
        out[IDX(i,j,k)] = 0.0;
        return;
    }
    out[IDX(i,j,k)] = (in[IDX(i+1,j,k)] + in[IDX(i-1,j,k)]
                     + in[IDX(i,j+1,k)] + in[IDX(i,j-1,k)]
                     + in[IDX(i,j,k+1)] + in[IDX(i,j,k-1)] - 6.0*in[IDX(i,j,k)])/h2;
}

int main(int argc, char *argv[])
{
    int side = 96;
    if(argc == 2) side = atoi(argv[1]);
    int n = side*side*side;
    double h = 1.0/(side-1);
    double *in = (double*)malloc(n*sizeof(double)), *out = (double*)malloc(n*sizeof(double));
    for (int i=0; i<n; i++) in[i] = (double)rand()/RAND_MAX;
    double *din, *dout;
    cudaMalloc((void**)&din, n*sizeof(double));
    cudaMalloc((void**)&dout, n*sizeof(double));
    cudaMemcpy(din, in, n*sizeof(double), cudaMemcpyHostToDevice);
    dim3 threads(8,8,8);
    dim3 blocks((side+7)/8,(side+7)/8,(side+7)/8);
    laplace<<<blocks,threads>>>(dout, din, side, h*h);
    cudaError_t e = cudaGetLastError();
    if (e != cudaSuccess) printf("error: %s\n", cudaGetErrorString(e));
    cudaMemcpy(out, dout, n*sizeof(double), cudaMemcpyDeviceToHost);
    printf("%f\n", out[IDX(1,1,1)]);
    return 0;
}
