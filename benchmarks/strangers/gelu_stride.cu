// gelu, grid-stride loop, device function, exp instead of tanh, a division for each element
// evo: task gelu
// evo: knob TPB in 64, 128, 256, 512
// evo: launch run grid (min(ceil_div(N, TPB), 1024)) block (TPB) shared 0
#define TPB 256
static __device__ float sigmoid(float z) { return 1.0f / (1.0f + expf(-z)); }
extern "C" __global__ void run(const float* x, float* y, int n) {
    const int step = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const float v = x[i];
        y[i] = v * sigmoid(2.0 * 0.7978845608 * (v + 0.044715 * v * v * v));
    }
}
