// evo: task sort_network
// evo: launch middle grid (ceil_div(W, 64), H) block (64) shared 0
#define TAPS 9

extern "C" __global__ void middle(const unsigned short* x, unsigned short* y, int H, int W) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (col >= W) return;
    unsigned short near[TAPS];
#pragma unroll
    for (int k = 0; k < TAPS; ++k) near[k] = x[row * W + min(max(col + k - TAPS / 2, 0), W - 1)];
    // A network of comparisons at fixed places sorts near, which stays in registers.
#pragma unroll
    for (int part = 1; part < 9; part *= 2) {
#pragma unroll
        for (int step = part; step > 0; step /= 2) {
#pragma unroll
            for (int low = 0; low < 9; ++low) {
                const int high = low + step, offset = low - step % part;
                if (high < 9 && offset >= 0 && offset / step % 2 == 0 && low / (2 * part) == high / (2 * part)) {
                    const unsigned short first = near[low] < near[high] ? near[low] : near[high];
                    const unsigned short last = near[low] < near[high] ? near[high] : near[low];
                    near[low] = first, near[high] = last;
                }
            }
        }
    }
    y[row * W + col] = near[TAPS / 2];
}
