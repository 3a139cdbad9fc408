// evo: task batchnorm_infer
// evo: launch batchnorm_forward grid (ceil_div(N * C * HW, 256)) block (256) shared 0
#define EPS 1e-5f
extern "C" __global__ void batchnorm_forward(const float *input, const float *running_mean, const float *running_var,
                                             const float *weight, const float *bias, float *output,
                                             int N, int C, int spatial) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int total = N * C * spatial;
    if (idx < total) {
        int c = (idx / spatial) % C;
        float normalized = (input[idx] - running_mean[c]) / sqrtf(running_var[c] + EPS);
        output[idx] = weight[c] * normalized + bias[c];
    }
}
