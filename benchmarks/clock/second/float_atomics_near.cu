// Mass of particles goes to the four cells around them: atomics on floats, near one another or far.
// sizes N=1048576 W=1024
// evo: task clock_zero
// evo: knob CLUSTER in 0, 1, 2
// evo: knob THREADS in 64, 256, 512
// evo: knob PARTICLES in 65536, 262144
// evo: launch deposit grid (PARTICLES // THREADS) block (THREADS) shared 0
#define CLUSTER 0
#define THREADS 64
#define PARTICLES 65536
extern "C" __global__ void deposit(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    const int p = blockIdx.x * THREADS + threadIdx.x;
    const float px = (CLUSTER == 2 ? p % 1021 + a[p] : a[p] * 1022.0f), py = (CLUSTER == 0 ? b[p] * 1022.0f : p / 1024 + b[p]);
    const int x = (int)px, y = (int)py;
    const float u = px - x, v = py - y;
    float* cell = out + y * 1024 + x;
    atomicAdd(cell, (1 - u) * (1 - v));
    atomicAdd(cell + 1, u * (1 - v));
    atomicAdd(cell + 1024, (1 - u) * v);
    atomicAdd(cell + 1025, u * v);
}
