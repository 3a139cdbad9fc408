// expect: wrong, y[
// Looks for a place by halving.
// evo: task   scatter_add
// evo: launch kernel grid (ceil_div(V, 64)) block (64) shared 0

extern "C" __global__ void kernel(const int* place, const int* x, int* y, int v, int n) {
    const int to = blockIdx.x * 64 + threadIdx.x;
    if (to >= v) return;
    int sum = 0;
    int low = 0, high = n;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (place[mid] < to) low = mid + 1; else high = mid;
    }
    for (; low < n && place[low] == to; ++low) sum += x[low];
    y[to] = sum;
}
