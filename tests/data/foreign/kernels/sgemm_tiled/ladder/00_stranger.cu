// The matrix product of every textbook: one thread per element of C, tiles of A and B in shared memory.
// evo: task sgemm_tiled
// evo: knob TILE_WIDTH in 8, 16, 32
// evo: launch MatrixMulKernel grid (ceil_div(N, TILE_WIDTH), ceil_div(M, TILE_WIDTH)) block (TILE_WIDTH, TILE_WIDTH) shared 0
#define TILE_WIDTH 16

extern "C" __global__ void MatrixMulKernel(const float* A, const float* B, float* C, float alpha, int numARows,
                                           int numBColumns, int numAColumns)
{
    __shared__ float ds_M[TILE_WIDTH][TILE_WIDTH];
    __shared__ float ds_N[TILE_WIDTH][TILE_WIDTH];
    int bx = blockIdx.x, by = blockIdx.y, tx = threadIdx.x, ty = threadIdx.y,
        Row = by * TILE_WIDTH + ty, Col = bx * TILE_WIDTH + tx;
    float Pvalue = 0;

    for (int m = 0; m < (numAColumns - 1) / TILE_WIDTH + 1; ++m)
    {
        if (Row < numARows && m * TILE_WIDTH + tx < numAColumns)
            ds_M[ty][tx] = A[Row * numAColumns + m * TILE_WIDTH + tx];
        else
            ds_M[ty][tx] = 0;
        if (Col < numBColumns && m * TILE_WIDTH + ty < numAColumns)
            ds_N[ty][tx] = B[(m * TILE_WIDTH + ty) * numBColumns + Col];
        else
            ds_N[ty][tx] = 0;

        __syncthreads();
        for (int k = 0; k < TILE_WIDTH; ++k)
            Pvalue += ds_M[ty][k] * ds_N[k][tx];
        __syncthreads();
    }
    if (Row < numARows && Col < numBColumns)
        C[Row * numBColumns + Col] = alpha * Pvalue;
}
