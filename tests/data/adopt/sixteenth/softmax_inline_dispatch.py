"""Fused masked softmax as an inline extension. Notebook cell exported to .py"""

import math

import torch
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIGUOUS(x)

template <typename scalar_t>
__global__ void causal_softmax_kernel(const scalar_t* __restrict__ scores, scalar_t* __restrict__ probs,
                                      int T, float scale) {
    extern __shared__ float red[];
    int row = blockIdx.x;           // 0 .. B*H*T
    int t = row % T;
    const scalar_t* s = scores + (size_t)row * T;
    scalar_t* p = probs + (size_t)row * T;

    float mx = -1e30f;
    for (int j = threadIdx.x; j <= t; j += blockDim.x) mx = fmaxf(mx, scale * static_cast<float>(s[j]));
    red[threadIdx.x] = mx;
    __syncthreads();
    for (int o = blockDim.x / 2; o > 0; o >>= 1) {
        if (threadIdx.x < o) red[threadIdx.x] = fmaxf(red[threadIdx.x], red[threadIdx.x + o]);
        __syncthreads();
    }
    mx = red[0];
    __syncthreads();

    float sum = 0.f;
    for (int j = threadIdx.x; j <= t; j += blockDim.x) sum += expf(scale * static_cast<float>(s[j]) - mx);
    red[threadIdx.x] = sum;
    __syncthreads();
    for (int o = blockDim.x / 2; o > 0; o >>= 1) {
        if (threadIdx.x < o) red[threadIdx.x] += red[threadIdx.x + o];
        __syncthreads();
    }
    sum = red[0];

    for (int j = threadIdx.x; j < T; j += blockDim.x)
        p[j] = j <= t ? static_cast<scalar_t>(expf(scale * static_cast<float>(s[j]) - mx) / sum)
                      : static_cast<scalar_t>(0);
}

torch::Tensor causal_softmax(torch::Tensor scores, double scale) {
    CHECK_INPUT(scores);
    auto probs = torch::empty_like(scores);
    const int T = scores.size(-1);
    const int rows = scores.numel() / T;
    const int threads = 128;
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(scores.scalar_type(), "causal_softmax", ([&] {
        causal_softmax_kernel<scalar_t><<<rows, threads, threads * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(
            scores.data_ptr<scalar_t>(), probs.data_ptr<scalar_t>(), T, (float)scale);
    }));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return probs;
}
"""

cpp_src = "torch::Tensor causal_softmax(torch::Tensor scores, double scale);"

ext = load_inline(
    name="causal_softmax_ext",
    cpp_sources=[cpp_src],
    cuda_sources=[cuda_src],
    functions=["causal_softmax"],
    verbose=True,
    extra_cuda_cflags=["-O3", "--use_fast_math"],
)


def reference(scores, scale):
    T = scores.shape[-1]
    mask = torch.tril(torch.ones(T, T, device=scores.device, dtype=torch.bool))
    return torch.softmax((scores * scale).masked_fill(~mask, float("-inf")), dim=-1)


if __name__ == "__main__":
    B, H, T, D = 4, 8, 256, 80
    torch.manual_seed(0)
    scores = torch.randn(B, H, T, T, device="cuda")
    out = ext.causal_softmax(scores, 1.0 / math.sqrt(D))
    torch.testing.assert_close(out, reference(scores, 1.0 / math.sqrt(D)), rtol=1e-4, atol=1e-5)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(100):
        ext.causal_softmax(scores, 1.0 / math.sqrt(D))
    end.record()
    torch.cuda.synchronize()
    print(f"{start.elapsed_time(end) / 100 * 1000:.1f} us")
