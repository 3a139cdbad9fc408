// conv2d: one thread per output element, nested ternaries, early continue, hungarian names
// evo: task   conv2d
// evo: knob   nThreads in 32, 64, 128, 256
// evo: launch conv2d grid (ceil_div(N * ((H + 2 * PAD - DIL * (R - 1) - 1) // STRIDE + 1) * ((W + 2 * PAD - DIL * (S - 1) - 1) // STRIDE + 1) * K, nThreads)) block (nThreads) shared 0
#include <cuda_fp16.h>
constexpr int nThreads = 128;
using half_t = __half;

template <typename Index>
__device__ inline Index outDim(Index nIn, Index nTap, Index nStride, Index nPad, Index nDil) { return (nIn + 2 * nPad - nDil * (nTap - 1) - 1) / nStride + 1; }

extern "C" __global__ void conv2d(const half_t* pX, const half_t* pW, half_t* pY, int nN, int nH, int nW, int nC, int nK, int nR, int nS, int nStride, int nPad, int nDil)
{
	const int nP = outDim(nH, nR, nStride, nPad, nDil), nQ = outDim(nW, nS, nStride, nPad, nDil);
	const long long iOut = (long long)blockIdx.x * nThreads + threadIdx.x;
	if (iOut >= (long long)nN * nP * nQ * nK)
		return;
	const int iK = iOut % nK;
	const int iQ = iOut / nK % nQ;
	const int iP = iOut / ((long long)nK * nQ) % nP;
	const int iN = iOut / ((long long)nK * nQ * nP);
	float fSum = 0;
	for (int r = 0; r < nR; ++r)
	{
		const int h = iP * nStride - nPad + r * nDil;
		if (h < 0 || h >= nH)
			continue;
		for (int s = 0; s < nS; ++s)
		{
			const int w = iQ * nStride - nPad + s * nDil;
			if (w < 0 || w >= nW)
				continue;
			const half_t* px = pX + (((long long)iN * nH + h) * nW + w) * nC;
			const half_t* pw = pW + (((long long)iK * nR + r) * nS + s) * nC;
			int c = nC;
			while (c--)
				fSum += __half2float(*px++) * __half2float(*pw++);
		}
	}
	pY[iOut] = __float2half(fSum);
}
