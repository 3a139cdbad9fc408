// log softmax: a thread a row, three passes
// evo: task log_softmax
// evo: launch log_softmax grid (ceil_div(ROWS, 32)) block (32) shared 0
#include <math.h>
extern "C" __global__ void log_softmax(const float* inp, float* out, int N, int C) {
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
        float sum = 0.0f;
        for (int j = 0; j < C; j++) {
            sum += expf(inp_row[j] - maxval);
        }
        for (int j = 0; j < C; j++) {
            out_row[j] = inp_row[j] - maxval - logf(sum);
        }
    }
}
