// evo: task adamw_step
// evo: launch adamw grid (ceil_div(N, 512)) block (512) shared 0
extern "C" __global__ void adamw(const float* p, const float* g, const float* m, const float* v, float* po, float* mo, float* vo, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    float grad = g[i];
    float mi = 0.9f * m[i] + 0.1f * grad;
    float vi = 0.999f * v[i] + 0.001f * grad * grad;
    mo[i] = mi;
    vo[i] = vi;
    mi /= 0.1f;
    vi /= 0.001f;
    po[i] = p[i] - 1e-3f * (mi / (sqrtf(vi) + 1e-8f) + 0.01f * p[i]);
}
