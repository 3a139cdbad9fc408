// evo: task byte_dots
// evo: launch assign grid (ceil_div(N, 128)) block (128) shared 0
extern "C" __global__ void assign(const signed char* points, const signed char* centres, int* label, int N, int D, int K) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N) return;
    int nearest = 0x7fffffff, which = 0;
    for (int k = 0; k < K; k++) {
        int far = 0;
        for (int d = 0; d < D; d++) {
            int apart = points[n * D + d] - centres[k * D + d];
            far += apart * apart;
        }
        if (far < nearest) {
            nearest = far;
            which = k;
        }
    }
    label[n] = which;
}
