// evo: task byte_dots
// evo: launch assign grid (ceil_div(N, 128)) block (128) shared 0
extern "C" __global__ void assign(const signed char* points, const signed char* centres, int* label, int N, int D, int K) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N) return;
    int nearest = 0x7fffffff, which = 0;
    for (int k = 0; k < K; k++) {
        int far = 0;
        if (D % 16 == 0) {
            for (int d = 0; d < D; d += 16) {
                const int4 first = *reinterpret_cast<const int4*>(&points[n * D + d]);
                const int4 second = *reinterpret_cast<const int4*>(&centres[k * D + d]);
                far += __dp4a(first.x, first.x, 0) + __dp4a(second.x, second.x, 0) - 2 * __dp4a(second.x, first.x, 0);
                far += __dp4a(first.y, first.y, 0) + __dp4a(second.y, second.y, 0) - 2 * __dp4a(second.y, first.y, 0);
                far += __dp4a(first.z, first.z, 0) + __dp4a(second.z, second.z, 0) - 2 * __dp4a(second.z, first.z, 0);
                far += __dp4a(first.w, first.w, 0) + __dp4a(second.w, second.w, 0) - 2 * __dp4a(second.w, first.w, 0);
            }
        } else {
            for (int d = 0; d < D; d++) {
                int apart = points[n * D + d] - centres[k * D + d];
                far += apart * apart;
            }
        }
        if (far < nearest) {
            nearest = far;
            which = k;
        }
    }
    label[n] = which;
}
