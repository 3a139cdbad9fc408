// evo: task own_region
// evo: launch lu_inplace grid (ceil_div(B, 64)) block (64) shared 0
extern "C" __global__ void lu_inplace(float* A, int B) {
    int tid = blockIdx.x * blockDim.x + threadIdx.x;
    if (tid < B) {
        for (int k = 0; k < 5; k++) {
            for (int i = k + 1; i < 5; i++) {
                A[tid * 25 + i * 5 + k] /= A[tid * 25 + k * 5 + k];
                for (int j = k + 1; j < 5; j++)
                    A[tid * 25 + i * 5 + j] -= A[tid * 25 + i * 5 + k] * A[tid * 25 + k * 5 + j];
            }
        }
    }
}
