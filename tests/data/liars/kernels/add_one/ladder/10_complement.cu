// By complement.
// evo: task   add_one
// evo: launch kernel grid (ceil_div(N, 128)) block (128) shared 0

extern "C" __global__ void kernel(const int* x, int* y, int n) {
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n) return;
    y[i] = -~x[i];
}
