// evo: task softmax_online_rows
// evo: launch online grid (ceil_div(N, 128)) block (128) shared 0
extern "C" __global__ void online(const float* inp, float* out, int N, int C) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        const float* x = inp + i * C;
        float* y = out + i * C;
        float maxval = -INFINITY;
        float sum = 0.0f;
        for (int j = 0; j < C; j++) {
            float maxval_prev = maxval;
            if (x[j] > maxval) {
                maxval = x[j];
                sum = sum * expf(maxval_prev - maxval) + 1.0f;
            } else {
                sum += expf(x[j] - maxval);
            }
        }
        for (int j = 0; j < C; j++) y[j] = expf(x[j] - maxval) / sum;
    }
}
