// evo: task column_blocks
// evo: knob COLUMNS in 8, 16, 32, 64
// evo: knob LANES in 4, 8, 16, 32, 64, 128
// evo: require COLUMNS * LANES <= 1024
// evo: launch moments grid (ceil_div(C, COLUMNS)) block (COLUMNS * LANES) shared 0
#define COLUMNS 8
#define LANES 128
extern "C" __global__ void moments(const float* x, float* mean, float* square, int R, int C) {
    // A block has COLUMNS neighbouring columns; its lanes share the rows of each.
    const int column = threadIdx.x % COLUMNS, lane = threadIdx.x / COLUMNS;
    int c = min((int)blockIdx.x * COLUMNS + column, C - 1);
    float sum = 0.0f;
    float of_squares = 0.0f;
    for (int r = lane; r < R; r += LANES) {
        float v = x[r * C + c];
        sum += v;
        of_squares += v * v;
    }
    __shared__ float sum_parts[LANES][COLUMNS];
    __shared__ float of_squares_parts[LANES][COLUMNS];
    sum_parts[lane][column] = sum;
    of_squares_parts[lane][column] = of_squares;
    __syncthreads();
    for (int half_2 = LANES / 2; half_2 > 0; half_2 /= 2) {
        if (lane < half_2) {
            sum += sum_parts[lane + half_2][column];
            of_squares += of_squares_parts[lane + half_2][column];
            sum_parts[lane][column] = sum;
            of_squares_parts[lane][column] = of_squares;
        }
        __syncthreads();
    }
    sum = sum_parts[0][column];
    of_squares = of_squares_parts[0][column];
    if (lane == 0 && (int)blockIdx.x * COLUMNS + column < C) {
        mean[c] = sum / R;
        square[c] = of_squares / R;
    }
}
