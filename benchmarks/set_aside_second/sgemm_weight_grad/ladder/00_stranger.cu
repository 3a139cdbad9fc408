// evo: task sgemm_weight_grad
// evo: launch weight_grad grid (ceil_div(I, 16), ceil_div(O, 16)) block (16, 16) shared 0
#define TS 16
typedef float real;

struct Dims { int batch, in, out; };

__device__ __forceinline__ bool inside(int row, int col, int rows, int cols) { return row < rows && col < cols; }

extern "C" __global__ void weight_grad(const real* dy, const real* x, real* dw, int batch, int in, int out)
{
    __shared__ real sdy[TS][TS];
    __shared__ real sx[TS][TS];
    const int ty = threadIdx.y, tx = threadIdx.x;
    const int o = blockIdx.y * TS + ty;
    const int i = blockIdx.x * TS + tx;
    real acc = 0;
    const int tiles = (batch + TS - 1) / TS;
    for (int t = 0; t < tiles; ++t)
    {
        const int b = t * TS + ty;
        const int oc = blockIdx.y * TS + tx;
        sdy[ty][tx] = inside(b, oc, batch, out) ? dy[b * out + oc] : 0.f;
        sx[ty][tx] = inside(b, i, batch, in) ? x[b * in + i] : 0.f;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TS; ++k)
            acc += sdy[k][ty] * sx[k][tx];
        __syncthreads();
    }
    if (inside(o, i, out, in))
        dw[o * in + i] = acc;
}
