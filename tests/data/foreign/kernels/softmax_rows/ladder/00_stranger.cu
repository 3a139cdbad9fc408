// evo: task softmax_rows
// evo: launch softmax_forward_kernel1 grid (ceil_div(N, 128)) block (128) shared 0
// naive kernel: one thread per row, the sum in double
extern "C" __global__ void softmax_forward_kernel1(const float* inp, float* out, int N, int C) {
    // inp is (N, C), out is (N, C), each row of inp will get softmaxed
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        const float* inp_row = inp + i * C;
        float* out_row = out + i * C;

        float maxval = -INFINITY;
        for (int j = 0; j < C; j++) {
            if (inp_row[j] > maxval) {
                maxval = inp_row[j];
            }
        }
        double sum = 0.0;
        for (int j = 0; j < C; j++) {
            out_row[j] = expf(inp_row[j] - maxval);
            sum += out_row[j];
        }
        for (int j = 0; j < C; j++) {
            out_row[j] /= (float)sum;
        }
    }
}
