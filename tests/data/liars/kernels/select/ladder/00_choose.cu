// A choice for each element.
// evo: task   select
// evo: launch kernel grid (ceil_div(N, 128)) block (128) shared 0

extern "C" __global__ void kernel(const bool* chosen, const int* x, int* y, int n) {
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n) return;
    y[i] = chosen[i] ? x[i] : 0;
}
