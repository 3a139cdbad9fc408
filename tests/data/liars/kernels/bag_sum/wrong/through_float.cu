// expect: wrong, y[
// Adds in float, which keeps 24 bits.
// evo: task   bag_sum
// evo: launch kernel grid (ceil_div(B, 64)) block (64) shared 0

extern "C" __global__ void kernel(const int* table, const int* token, int* y, int v, int b, int t) {
    const int bag = blockIdx.x * 64 + threadIdx.x;
    if (bag >= b) return;
    float sum = 0.0f;
    for (int i = 0; i < t; ++i) sum += (float)table[token[(long long)bag * t + i]];
    y[bag] = (int)sum;
}
