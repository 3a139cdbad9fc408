// rms norm, while loops & goto-free C, one thread a row,   tabs
// evo: task rmsnorm
// evo: knob BS in 32, 64, 128
// evo: launch rmsnorm grid (ceil_div(ROWS, BS)) block (BS) shared 0
#include <cuda_fp16.h>
#define BS 64

typedef struct { const __half *x; const __half *w; __half *y; float eps; int rows, cols; } args_t;

static __device__ float row_norm(const args_t *a, long long at)
{
	float sum = 0.f;
	int i = 0;
	while (i < a->cols) {
		float v = __half2float(a->x[at + i]);
		sum = sum + v * v;
		i++;
	}
	return sqrtf(sum / (float)a->cols + a->eps);
}

static __device__ void row_write(args_t const &a, long long at, float norm)
{
	int i = 0;
	for (; i < a.cols; ) {
		float v = __half2float(a.x[at + i]);
		a.y[at + i] = __float2half(v / norm * __half2float(a.w[i]));
		++i;
	}
}

extern "C" __global__ void rmsnorm(const __half *x, const __half *w, __half *y, float eps, int rows, int cols)
{
	int row = blockDim.x * blockIdx.x + threadIdx.x;
	args_t a = { x, w, y, eps, rows, cols };
	if (row < rows) {
		long long at = (long long)row * cols;
		row_write(a, at, row_norm(&a, at));
	}
}
