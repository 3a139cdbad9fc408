// all pairs: a thread a body, sqrtf and a division in the inner loop
// evo: task forces
// evo: knob BODIES in 32, 64, 128
// evo: launch forces grid (ceil_div(N, BODIES)) block (BODIES) shared 0
#define BODIES 64
extern "C" __global__ void forces(const float* p, float* f, int n) {
    const int i = blockIdx.x * BODIES + threadIdx.x;
    if (i >= n) return;
    const float xi = p[i * 4], yi = p[i * 4 + 1], zi = p[i * 4 + 2];
    float sum = 0.0f;
    for (int j = 0; j < n; j++) {
        const float dx = xi - p[j * 4];
        const float dy = yi - p[j * 4 + 1];
        const float dz = zi - p[j * 4 + 2];
        const float r = sqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
        sum += p[j * 4 + 3] / r;
    }
    f[i] = sum;
}
