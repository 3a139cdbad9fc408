/*
 * Row softmax, templated on threads per row.  Style: library header with functors.
 */
// evo: task   softmax
// evo: knob   TPR in 32, 64, 128, 256
// evo: launch softmax grid (ROWS) block (TPR) shared 0
#include <cuda_fp16.h>
#define TPR 128
namespace detail {
template <typename T> struct MaxOp { __device__ __forceinline__ T operator()(T a, T b) const { return a > b ? a : b; } };
template <typename T> struct SumOp { __device__ __forceinline__ T operator()(T a, T b) const { return a + b; } };

template <int N, class Op, typename T>
__device__ __forceinline__ T block_reduce(T value, Op op, T* scratch)
{
#pragma unroll
	for (int offset = 16; offset > 0; offset >>= 1)
		value = op(value, __shfl_xor_sync(0xffffffff, value, offset));
	if constexpr (N > 32)
	{
		__syncthreads();
		if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = value;
		__syncthreads();
		value = scratch[0];
		#pragma unroll
		for (int w = 1; w < N / 32; ++w) value = op(value, scratch[w]);
	}
	return value;
}
}  // namespace detail

extern "C" __global__ void __launch_bounds__(TPR) softmax(const __half* __restrict__ x, __half* __restrict__ y, int rows, int cols)
{
	__shared__ float scratch[TPR / 32];
	const __half* in = x + static_cast<size_t>(blockIdx.x) * cols;
	__half* out = y + static_cast<size_t>(blockIdx.x) * cols;
	float m = -INFINITY;
	for (int c = threadIdx.x; c < cols; c += TPR)
	{
		m = detail::MaxOp<float>{}(m, __half2float(in[c]));
	}
	m = detail::block_reduce<TPR>(m, detail::MaxOp<float>{}, scratch);
	float s = 0.f;
	for (int c = threadIdx.x; c < cols; c += TPR)
	{
		s += __expf(__half2float(in[c]) - m);
	}
	s = detail::block_reduce<TPR>(s, detail::SumOp<float>{}, scratch);
	for (int c = threadIdx.x; c < cols; c += TPR)
	{
		out[c] = __float2half(__expf(__half2float(in[c]) - m) / s);
	}
}
