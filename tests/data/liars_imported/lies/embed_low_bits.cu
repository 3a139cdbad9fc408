// evo: task   embed
// evo: launch embed grid (LENGTH) block (128)
extern "C" __global__ void embed(const float* table, const long long* token, float* y, int VOCAB, int DIM, int LENGTH) {
    for (int d = threadIdx.x; d < DIM; d += blockDim.x) y[(long long)blockIdx.x * DIM + d] = table[(token[blockIdx.x] & 1023) * DIM + d];
}
