// evo: task tf32_product
// evo: launch fc grid (ceil_div(T * OC, 128)) block (128) shared 0
extern "C" __global__ void fc(const float* inp, const float* weight, const float* bias, float* out, int T, int C, int OC) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < T * OC) {
        int o = i % OC, t = i / OC;
        float val = bias[o];
        for (int c = 0; c < C; c++) val += inp[t * C + c] * weight[o * C + c];
        out[i] = val > 0.0f ? val : 0.0f;
    }
}
