// evo: task   given_lengths
// evo: launch rows grid (ceil_div(R, 64)) block (64)
extern "C" __global__ void rows(const int* first, const float* value, float* sum, int R, int N) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= R) return;
    float total = 0.0f;
    for (int i = first[r]; i < first[r + 1]; ++i) total += value[i];
    sum[r] = total;
}
