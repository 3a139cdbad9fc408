// evo: task sort_network
// evo: launch middle grid (ceil_div(W, 64), H) block (64) shared 0
#define TAPS 9
__device__ void exchange(unsigned short& a, unsigned short& b) {
    const unsigned short kept = a;
    a = b, b = kept;
}

extern "C" __global__ void middle(const unsigned short* x, unsigned short* y, int H, int W) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (col >= W) return;
    unsigned short near[TAPS];
    for (int k = 0; k < TAPS; ++k) near[k] = x[row * W + min(max(col + k - TAPS / 2, 0), W - 1)];
    for (int i = 0; i <= TAPS / 2; i++) {
        int least = i;
        for (int j = i + 1; j < TAPS; j++)
            if (near[j] < near[least]) least = j;
        exchange(near[i], near[least]);
    }
    y[row * W + col] = near[TAPS / 2];
}
