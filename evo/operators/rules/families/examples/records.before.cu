// evo: task records
// evo: launch k grid (ceil_div(N, 128)) block (128) shared 0
extern "C" __global__ void k(const float* atoms, float* energy, int N, int A) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    float sum = 0.0f;
    for (int j = 0; j < A; ++j) {
        float dx = 0.001f * i - atoms[4 * j];
        float y = atoms[4 * j + 1], z = atoms[4 * j + 2];
        sum += atoms[4 * j + 3] / sqrtf(dx * dx + y * y + z * z);
    }
    energy[i] = sum;
}
