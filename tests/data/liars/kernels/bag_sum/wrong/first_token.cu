// expect: wrong, y[
// The first token stands for all of the bag.
// evo: task   bag_sum
// evo: launch kernel grid (ceil_div(B, 64)) block (64) shared 0

extern "C" __global__ void kernel(const int* table, const int* token, int* y, int v, int b, int t) {
    const int bag = blockIdx.x * 64 + threadIdx.x;
    if (bag >= b) return;
    y[bag] = t * table[token[(long long)bag * t]];
}
