// expect: wrong, y[
// One value for each place.
// evo: task   scatter_add
// evo: launch kernel grid (ceil_div(V, 64)) block (64) shared 0

extern "C" __global__ void kernel(const int* place, const int* x, int* y, int v, int n) {
    const int to = blockIdx.x * 64 + threadIdx.x;
    if (to >= v) return;
    int sum = 0;
    for (int i = 0; i < n; ++i) sum = place[i] == to ? x[i] : sum;
    y[to] = sum;
}
