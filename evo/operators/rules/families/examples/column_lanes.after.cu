// evo: task column_lanes
// evo: knob COLUMNS in 8, 16, 32, 64
// evo: knob LANES in 4, 8, 16, 32, 64, 128
// evo: require COLUMNS * LANES <= 1024
// evo: launch statistics grid (ceil_div(C, COLUMNS)) block (COLUMNS * LANES) shared 0
#define COLUMNS 8
#define LANES 128
extern "C" __global__ void statistics(const float* x, float* mean, float* centred, int R, int C) {
    // A block has COLUMNS neighbouring columns; its lanes share the rows of each.
    const int column = threadIdx.x % COLUMNS, lane = threadIdx.x / COLUMNS;
    const bool is_inside = (int)blockIdx.x * COLUMNS + column < C;
    const bool is_first = lane == 0 && is_inside;
    int c = min((int)blockIdx.x * COLUMNS + column, C - 1);
    if (c < C) {
        float sum = 0.0f;
        for (int r = lane; r < R; r += LANES) sum += x[r * C + c];
        __shared__ float sum_parts[LANES][COLUMNS];
        sum_parts[lane][column] = sum;
        __syncthreads();
        for (int half = LANES / 2; half > 0; half /= 2) {
            if (lane < half) {
                sum += sum_parts[lane + half][column];
                sum_parts[lane][column] = sum;
            }
            __syncthreads();
        }
        sum = sum_parts[0][column];
        sum /= R;
        for (int r = lane; r < R; r += LANES) {
            if (is_inside) centred[r * C + c] = x[r * C + c] - sum;
        }
        if (is_first) mean[c] = sum;
    }
}
