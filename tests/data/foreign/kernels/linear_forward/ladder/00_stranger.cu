// evo: task linear_forward
// evo: launch matmul_forward grid (ceil_div(B * T, 16), ceil_div(OC, 16)) block (16, 16) shared 0
// each thread computes one output channel of one token
extern "C" __global__ void matmul_forward(const float* inp, const float* weight, const float* bias, float* out,
                                          int B, int T, int C, int OC) {
    int bt = blockIdx.x * blockDim.x + threadIdx.x;
    int oc = blockIdx.y * blockDim.y + threadIdx.y;
    if (bt < B * T && oc < OC) {
        float val = (bias != NULL) ? bias[oc] : 0.0f;
        const float* wrow = weight + oc * C;
        const float* inp_bt = inp + bt * C;
        for (int i = 0; i < C; i++) {
            val += inp_bt[i] * wrow[i];
        }
        out[bt * OC + oc] = val;
    }
}
