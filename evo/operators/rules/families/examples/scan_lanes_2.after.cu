// evo: task scan_lanes
// evo: knob COLUMNS in 8, 16, 32, 64
// evo: knob LANES in 4, 8, 16, 32, 64, 128
// evo: require COLUMNS * LANES <= 1024
// evo: launch down grid (ceil_div(L, COLUMNS)) block (COLUMNS * LANES) shared 0
#define COLUMNS 32
#define LANES 32
extern "C" __global__ void down(const float* x, float* y, float* last, int N, int L) {
    // A block has COLUMNS neighbouring columns; its lanes share the rows of each.
    const int column = threadIdx.x % COLUMNS, lane = threadIdx.x / COLUMNS;
    const bool is_inside = (int)blockIdx.x * COLUMNS + column < L;
    int l = min((int)blockIdx.x * COLUMNS + column, L - 1);
    if (l >= L) return;
    float largest = x[l];
    const int each = (N + LANES - 1) / LANES;  // turns of a lane
    const int begin = lane * each, end = min(N, begin + each);
    float largest_part = largest;
    for (int n = begin; n < end; ++n) {
        float value = x[n * L + l];
        largest_part = fmaxf(largest_part, value);
    }
    __shared__ float largest_parts[LANES][COLUMNS];
    largest_parts[lane][column] = largest_part;
    __syncthreads();
    for (int other = 0; other < lane; ++other) {
        const auto theirs = largest_parts[other][column];
        largest = theirs > largest ? theirs : largest;
    }
    for (int n = begin; n < end; ++n) {
        float value = x[n * L + l];
        largest = fmaxf(largest, value);
        if (is_inside) y[n * L + l] = value - largest;
    }
}
