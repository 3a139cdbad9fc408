#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

#define CHECK_INPUT(x) TORCH_CHECK(x.is_cuda() && x.is_contiguous(), #x " must be a contiguous CUDA tensor")

__device__ __forceinline__ float silu(float v) { return v / (1.f + expf(-v)); }

// x: [batch, dim, seqlen], weight: [dim, width], bias: [dim]
template <int kWidth>
__global__ void causal_conv1d_fwd_kernel(const float* __restrict__ x, const float* __restrict__ weight,
                                         const float* __restrict__ bias, float* __restrict__ out,
                                         const int dim, const int seqlen) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    const int d = blockIdx.y;
    const int b = blockIdx.z;
    if (t >= seqlen) return;
    const float* row = x + (static_cast<int64_t>(b) * dim + d) * seqlen;
    float acc = bias[d];
    #pragma unroll
    for (int w = 0; w < kWidth; ++w) {
        const int s = t - (kWidth - 1) + w;
        if (s >= 0) acc += weight[d * kWidth + w] * row[s];
    }
    out[(static_cast<int64_t>(b) * dim + d) * seqlen + t] = silu(acc);
}

torch::Tensor causal_conv1d_fwd(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    CHECK_INPUT(x);
    CHECK_INPUT(weight);
    CHECK_INPUT(bias);
    const int batch = x.size(0), dim = x.size(1), seqlen = x.size(2);
    const int width = weight.size(1);
    auto out = torch::empty_like(x);
    const int threads = 128;
    const dim3 blocks((seqlen + threads - 1) / threads, dim, batch);
    auto stream = at::cuda::getCurrentCUDAStream().stream();
    switch (width) {
        case 2: causal_conv1d_fwd_kernel<2><<<blocks, threads, 0, stream>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), dim, seqlen); break;
        case 3: causal_conv1d_fwd_kernel<3><<<blocks, threads, 0, stream>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), dim, seqlen); break;
        case 4: causal_conv1d_fwd_kernel<4><<<blocks, threads, 0, stream>>>(x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), dim, seqlen); break;
        default: TORCH_CHECK(false, "unsupported width ", width);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("causal_conv1d_fwd", &causal_conv1d_fwd, "causal depthwise conv1d with SiLU");
}
