// evo: task channel_norm
// evo: launch mean_kernel grid (C) block (1) shared 0
// evo: launch variance_kernel grid (C) block (1) shared 0
// evo: launch normalize_kernel grid (ceil_div(N * C * H * W, 256)) block (256) shared 0
extern "C" __global__ void mean_kernel(const float *x, float *mean, float *var, float *y, int batch, int filters, int h, int w)
{
    float scale = 1.f / (batch * h * w);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= filters) return;
    int j, k;
    mean[i] = 0;
    for (j = 0; j < batch; ++j) {
        for (k = 0; k < h * w; ++k) {
            int index = j * filters * h * w + i * h * w + k;
            mean[i] += x[index];
        }
    }
    mean[i] *= scale;
}
extern "C" __global__ void variance_kernel(const float *x, float *mean, float *var, float *y, int batch, int filters, int h, int w)
{
    float scale = 1.f / (batch * h * w);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= filters) return;
    int j, k;
    float acc = 0;
    for (j = 0; j < batch; ++j) {
        for (k = 0; k < h * w; ++k) {
            int index = j * filters * h * w + i * h * w + k;
            acc += (x[index] - mean[i]) * (x[index] - mean[i]);
        }
    }
    var[i] = acc * scale;
}
extern "C" __global__ void normalize_kernel(const float *x, float *mean, float *var, float *y, int batch, int filters, int h, int w)
{
    int spatial = h * w;
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= batch * filters * spatial) return;
    int f = (index / spatial) % filters;
    y[index] = (x[index] - mean[f]) / (sqrtf(var[f] + 1e-5f));
}
