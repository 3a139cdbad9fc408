// The least element of each row and where it is, by a structure that goes through shared memory.
// sizes N=8388608 W=768
// evo: task clock
// evo: knob THREADS in 32, 64, 128, 256
// evo: knob ROWS in 1, 2, 4
// evo: knob STEP in 1, 2
// evo: launch argmin grid (ceil_div(N // W, ROWS)) block (THREADS, ROWS) shared 0
// evo: require THREADS * ROWS <= 1024
#define THREADS 32
#define ROWS 1
#define STEP 1
struct Best {
    float value;
    int where;
    __device__ void offer(float v, int at) {
        if (v < value) { value = v; where = at; }
    }
};

extern "C" __global__ void argmin(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    __shared__ Best of[ROWS][THREADS];
    const int row = blockIdx.x * ROWS + threadIdx.y;
    const bool there = row < N / W;
    Best mine{3e38f, -1};
    if (there)
        for (int c = threadIdx.x * STEP; c < W; c += THREADS * STEP)
            for (int k = 0; k < STEP; ++k) mine.offer(a[row * W + c + k], c + k);
    of[threadIdx.y][threadIdx.x] = mine;
    __syncthreads();
    for (int active = THREADS / 2; active > 0; active >>= 1) {
        if (threadIdx.x < active) {
            const Best other = of[threadIdx.y][threadIdx.x + active];
            of[threadIdx.y][threadIdx.x].offer(other.value, other.where);
        }
        __syncthreads();
    }
    if (there && threadIdx.x == 0) {
        out[2 * row] = of[threadIdx.y][0].value;
        out[2 * row + 1] = (float)of[threadIdx.y][0].where;
    }
}
