// gelu as in a first CUDA course: one thread an element, tanhf, long expression
// evo: task gelu
// evo: launch gelu_kernel grid (ceil_div(N, 256)) block (256) shared 0
extern "C" __global__ void gelu_kernel(const float *input, float *output, int n)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < n) {
        float x = input[idx];
        float cube = 0.044715f * x * x * x;
        output[idx] = 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + cube)));
    }
}
