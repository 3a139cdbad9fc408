// attention forward, raw pointers; K and V are longer than Q (cross attention)
#include <cstdio>
#include <cstdlib>
#include <cmath>
__global__ void attn(const float* q, const float* k, const float* v, float* o, int sq, int skv, int hd, float scale) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int head = blockIdx.y;
    if (row >= sq) return;
    const float* qr = q + (head * sq + row) * hd;
    const float* kh = k + head * skv * hd;
    const float* vh = v + head * skv * hd;
    float m = -1e30f, l = 0.f, acc[64];
    for (int i = 0; i < hd; ++i) acc[i] = 0.f;
    for (int t = 0; t < skv; ++t) {
        float s = 0.f;
        for (int i = 0; i < hd; ++i) s += qr[i] * kh[t * hd + i];
        s *= scale;
        float mn = fmaxf(m, s), c = expf(m - mn), p = expf(s - mn);
        l = l * c + p;
        for (int i = 0; i < hd; ++i) acc[i] = acc[i] * c + p * vh[t * hd + i];
        m = mn;
    }
    for (int i = 0; i < hd; ++i) o[(head * sq + row) * hd + i] = acc[i] / l;
}
void launch_attention(const float* q, const float* k, const float* v, float* o, int heads, int sq, int skv, int hd) {
    dim3 grid((sq + 127) / 128, heads);
    attn<<<grid, 128>>>(q, k, v, o, sq, skv, hd, 1.0f / sqrtf((float)hd));
}
