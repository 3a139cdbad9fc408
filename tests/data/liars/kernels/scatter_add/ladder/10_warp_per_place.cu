// A warp for each place.
// evo: task   scatter_add
// evo: launch kernel grid (V) block (32) shared 0

extern "C" __global__ void kernel(const int* place, const int* x, int* y, int v, int n) {
    int sum = 0;
    for (int i = threadIdx.x; i < n; i += 32) sum += place[i] == blockIdx.x ? x[i] : 0;
    y[blockIdx.x] = __reduce_add_sync(0xffffffffu, sum);
}
