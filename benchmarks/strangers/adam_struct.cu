// an optimiser step: hyper-parameters in a struct, double literals, powers by hand
// evo: task adam
// evo: launch adam_step grid (ceil_div(N, 512)) block (512) shared 0
struct Hyper { float lr, b1, b2, eps, decay; };
extern "C" __global__ void adam_step(const float* w, const float* g, const float* m, const float* v, float* o, int n) {
    const Hyper h{0.001f, 0.9f, 0.999f, 0.01f, 0.01f};
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    float grad = g[t];
    float mt = h.b1 * m[t] + (0.1) * grad;
    float vt = h.b2 * v[t] + (0.001) * grad * grad;
    o[t] = w[t] - h.lr * (mt / (sqrtf(fabsf(vt)) + h.eps) + h.decay * w[t]);
}
