// A thread for each bag.
// evo: task   bag_sum
// evo: launch kernel grid (ceil_div(B, 64)) block (64) shared 0

extern "C" __global__ void kernel(const int* table, const int* token, int* y, int v, int b, int t) {
    const int bag = blockIdx.x * 64 + threadIdx.x;
    if (bag >= b) return;
    int sum = 0;
    for (int i = 0; i < t; ++i) sum += table[token[(long long)bag * t + i]];
    y[bag] = sum;
}
