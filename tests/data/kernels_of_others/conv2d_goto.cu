// conv2d: parameters named as the axes, goto, comma operators, ternaries, register tiles
// evo: task conv2d
// evo: knob FPT in 1, 2, 4
// evo: launch conv2d grid (ceil_div(((H + 2 * PAD - DIL * (R - 1) - 1) // STRIDE + 1) * ((W + 2 * PAD - DIL * (S - 1) - 1) // STRIDE + 1), 64), ceil_div(K, FPT), N) block (64) shared 0
#include <cuda_fp16.h>
#define FPT 2
extern "C" __global__ void conv2d(const __half* __restrict__ x, const __half* __restrict__ w, __half* __restrict__ y, int N, int H, int W_, int C, int K_, int R_, int S_, int stride, int pad, int dil) {
	const int oh = (H + 2 * pad - dil * (R_ - 1) - 1) / stride + 1, ow = (W_ + 2 * pad - dil * (S_ - 1) - 1) / stride + 1;
	const int p = blockIdx.x * 64 + threadIdx.x, n = blockIdx.z, k0 = blockIdx.y * FPT;
	if (p >= oh * ow) goto done;
	{
		float acc[FPT] = {};
		const int r0 = p / ow * stride - pad, c0 = p % ow * stride - pad;
		for (int r = 0, h = r0; r < R_; ++r, h += dil) for (int s = 0, q = c0; s < S_; ++s, q += dil) {
			if (h < 0 || h >= H || q < 0 || q >= W_) continue;
			for (int c = 0; c < C; ++c) {
				const float v = __half2float(x[(((long long)n * H + h) * W_ + q) * C + c]);
				for (int f = 0; f < FPT; ++f) if (k0 + f < K_) acc[f] += v * __half2float(w[(((long long)(k0 + f) * R_ + r) * S_ + s) * C + c]);
			}
		}
		for (int f = 0; f < FPT; ++f) if (k0 + f < K_) y[((long long)n * oh * ow + p) * K_ + k0 + f] = __float2half(acc[f]);
	}
done:;
}
