// evo: task dot_atomic
// evo: scratch acc float32 [1] init=zero
// evo: launch dot grid (ceil_div(N, 256)) block (256) shared 0
// evo: launch finish grid (1) block (1) shared 0
extern "C" __global__ void dot(const float* a, const float* b, float* out, float* acc, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) atomicAdd(acc, a[i] * b[i]);
}
extern "C" __global__ void finish(const float* a, const float* b, float* out, float* acc, int N) { out[0] = acc[0]; }
