// Distances of strings by diagonals: a barrier after each one, neighbours through shared memory.
// sizes N=1048576 W=1
// evo: task clock
// evo: knob LENGTH in 32, 64, 128, 256
// evo: knob PAIRS in 1, 2, 4
// evo: knob GRID in 132, 528
// evo: require LENGTH * PAIRS <= 512
// evo: launch distance grid (GRID) block (LENGTH, PAIRS) shared 0
#define LENGTH 32
#define PAIRS 1
#define GRID 132
extern "C" __global__ void distance(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    __shared__ int last[PAIRS][LENGTH + 1], before[PAIRS][LENGTH + 1];
    __shared__ unsigned char other[PAIRS][LENGTH];
    const int i = threadIdx.x, which = blockIdx.x * PAIRS + threadIdx.y;
    const int mine = idx[which * LENGTH + i] & 3;
    other[threadIdx.y][i] = idx[(which + 7) * LENGTH + i] & 3;
    last[threadIdx.y][i + 1] = before[threadIdx.y][i + 1] = i + 1;
    if (i == 0) last[threadIdx.y][0] = before[threadIdx.y][0] = 0;
    int left = i + 1;
    __syncthreads();
    for (int d = 0; d < 2 * LENGTH - 1; ++d) {
        const int j = d - i;
        int value = left;
        if (j >= 0 && j < LENGTH) {
            const int up = i ? last[threadIdx.y][i] : j + 1, corner = i ? before[threadIdx.y][i] : j;
            value = min(min(up, left) + 1, corner + (mine != other[threadIdx.y][j]));
        }
        __syncthreads();
        before[threadIdx.y][i + 1] = left;
        last[threadIdx.y][i + 1] = value;
        left = value;
        __syncthreads();
    }
    if (i == LENGTH - 1) out[which] = left;
}
