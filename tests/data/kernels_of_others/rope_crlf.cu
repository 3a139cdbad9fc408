// rope, one thread per pair, dos line ends
// evo: task   rope
// evo: knob   NTHREADS in 64, 128, 256
// evo: launch rope grid (ceil_div(B * S * H * (D // 2), NTHREADS)) block (NTHREADS) shared 0
#include <cuda_fp16.h>
#define NTHREADS 128

static __device__ __inline__ void rotate(float &a, float &b, const float c, const float s)
{
    const float t = a * c - b * s;
    b = b * c + a * s;
    a = t;
}

extern "C" __global__ void rope(const __half * x, const float * cosines, const float * sines, __half * y, int batch, int tokens, int heads, int dim, int positions)
{
    long long idx = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    int half = dim / 2;
    long long total = (long long)batch * tokens * heads * half;
    if (idx < total)
    {
        int pair = (int)(idx % half);
        long long head = idx / half;
        int token = (int)(head / heads % tokens);
        int pos = positions - tokens + token;
        float a = __half2float(x[head * dim + pair]);
        float b = __half2float(x[head * dim + pair + half]);
        rotate(a, b, cosines[pos * half + pair], sines[pos * half + pair]);
        y[head * dim + pair] = __float2half(a);
        y[head * dim + pair + half] = __float2half(b);
    }
}
