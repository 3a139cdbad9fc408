// evo: task scan_lanes
// evo: knob WARPS in 1, 2, 4, 8, 16
// evo: launch totals grid (ceil_div(N, WARPS)) block (32 * WARPS) shared 0
#define WARPS 2
extern "C" __global__ void totals(const float* x, float* y, float* last, int N, int L) {
    const int lane = threadIdx.x % 32;  // a warp for each index
    int n = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (n < N) {
        float total = 0.0f;
        for (int first = 0; first < L; first += 32) {
            const int l = first + lane;
            float total_part = 0;
            if (l < L) total_part = x[n * L + l];
            for (int step = 1; step < 32; step *= 2) {
                const float total_near = __shfl_up_sync(0xffffffffu, total_part, step);
                if (lane >= step) total_part += total_near;
            }
            const float total_here = total + total_part;
            if (l < L) y[n * L + l] = total_here;
            total = __shfl_sync(0xffffffffu, total_here, 31);
        }
        if (lane == 0) last[n] = total;
    }
}
