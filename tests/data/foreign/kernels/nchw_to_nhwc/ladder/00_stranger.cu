// evo: task nchw_to_nhwc
// evo: launch permute grid (ceil_div(N * C * P, 256)) block (256) shared 0
struct Shape { int n, c, p; };
extern "C" __global__ void permute(const float* x, float* y, int N, int C, int P) {
    Shape s = {N, C, P};
    const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < (long)s.n * s.c * s.p) {
        const int c = i % s.c, p = (i / s.c) % s.p, n = i / ((long)s.c * s.p);
        y[i] = x[((long)n * s.c + c) * s.p + p];
    }
}
