// evo: task gelu_forward
// evo: launch gelu_kernel grid (ceil_div(N, 512)) block (512) shared 0
#define GELU_SCALING_FACTOR sqrtf(2.0f / 3.14159265358979323846f)
// elementwise gelu, one thread per value
extern "C" __global__ void gelu_kernel(const float* inp, float* out, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float xi = inp[i];
        float cube = 0.044715f * xi * xi * xi;
        out[i] = 0.5f * xi * (1.0f + tanhf(GELU_SCALING_FACTOR * (xi + cube)));
    }
}
