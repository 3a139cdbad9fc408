// evo: task layernorm_weight_back
// evo: launch ln_backward_params grid (ceil_div(C, 256)) block (256) shared 0
extern "C" __global__ void ln_backward_params(const float* __restrict__ dout, const float* __restrict__ inp,
                                              const float* mean, const float* rstd,
                                              float* dweight, float* dbias, int N, int C) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= C) return;
    float dw = 0.f, db = 0.f;
    for (int n = 0; n < N; ++n) {
        const float g = dout[n * C + c];
        const float norm = (inp[n * C + c] - mean[n]) * rstd[n];
        dw += g * norm;
        db += g;
    }
    dweight[c] = dw;
    dbias[c] = db;
}
