// evo: task records
// evo: launch k grid (ceil_div(N, 128)) block (128) shared 0
struct alignas(16) Float4 {
    float at[4];
};
extern "C" __global__ void k(const float* atoms, float* energy, int N, int A) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    float sum = 0.0f;
    if (reinterpret_cast<unsigned long long>(atoms) % 16 == 0) {
        for (int j = 0; j < A; ++j) {
            const Float4 atoms_record = *reinterpret_cast<const Float4*>(&atoms[4 * j]);
            float dx = 0.001f * i - atoms_record.at[0];
            float y = atoms_record.at[1], z = atoms_record.at[2];
            sum += atoms_record.at[3] / sqrtf(dx * dx + y * y + z * z);
        }
    } else {
        for (int j = 0; j < A; ++j) {
            float dx = 0.001f * i - atoms[4 * j];
            float y = atoms[4 * j + 1], z = atoms[4 * j + 2];
            sum += atoms[4 * j + 3] / sqrtf(dx * dx + y * y + z * z);
        }
    }
    energy[i] = sum;
}
