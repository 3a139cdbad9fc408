// evo: task embedding_add
// evo: launch embed grid (ceil_div(B * T, 128)) block (128) shared 0
extern "C" __global__ void embed(const int* ids, const float* wte, const float* wpe, float* y, int B, int T, int C, int V) {
    int bt = blockIdx.x * blockDim.x + threadIdx.x;
    if (bt < B * T) {
        int t = bt % T;
        int id = ids[bt];
        for (int c = 0; c < C; c++) {
            y[bt * C + c] = wte[id * C + c] + wpe[t * C + c];
        }
    }
}
