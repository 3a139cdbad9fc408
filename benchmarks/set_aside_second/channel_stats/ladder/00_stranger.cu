// evo: task channel_stats
// evo: launch channel_stats grid (C) block (256) shared 0
#define BLOCK 256

extern "C" __global__ void channel_stats(const float* x, float* mean, float* var, int N, int C, int H, int W)
{
    __shared__ float s_sum[BLOCK];
    __shared__ float s_sq[BLOCK];
    int channel = blockIdx.x;
    int t = threadIdx.x;
    int total = N * H * W;
    float sum = 0.0f;
    float sq = 0.0f;
    for (int i = t; i < total; i += BLOCK)
    {
        float v = x[i * C + channel];
        sum += v;
        sq += v * v;
    }
    s_sum[t] = sum;
    s_sq[t] = sq;
    __syncthreads();
    for (int s = BLOCK / 2; s > 0; s >>= 1)
    {
        if (t < s)
        {
            s_sum[t] += s_sum[t + s];
            s_sq[t] += s_sq[t + s];
        }
        __syncthreads();
    }
    if (t == 0)
    {
        float m = s_sum[0] / total;
        mean[channel] = m;
        var[channel] = s_sq[0] / total - m * m;
    }
}
