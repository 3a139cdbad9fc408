#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <vector>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIGUOUS(x)

namespace moe {

// Softmax over the experts of a token, and its largest weight.
template <typename scalar_t>
__global__ void gate_forward_kernel(const scalar_t* __restrict__ logits, scalar_t* __restrict__ weight,
                                    int64_t* __restrict__ expert, const int num_tokens, const int num_experts) {
    const int token = blockIdx.x * blockDim.x + threadIdx.x;
    if (token >= num_tokens) return;
    const scalar_t* row = logits + token * num_experts;
    scalar_t best = row[0];
    int best_at = 0;
    for (int e = 1; e < num_experts; e++) {
        if (row[e] > best) {
            best = row[e];
            best_at = e;
        }
    }
    scalar_t sum = 0;
    for (int e = 0; e < num_experts; e++) sum += expf(row[e] - best);
    weight[token] = scalar_t(1) / sum;
    expert[token] = best_at;
}

}  // namespace moe

std::vector<torch::Tensor> gate_forward(torch::Tensor logits) {
    CHECK_INPUT(logits);
    const auto num_tokens = logits.size(0);
    const auto num_experts = logits.size(1);
    auto weight = torch::empty({num_tokens}, logits.options());
    auto expert = torch::empty({num_tokens}, logits.options().dtype(torch::kInt64));
    const int threads = 128;
    const dim3 blocks((num_tokens + threads - 1) / threads);
    auto stream = at::cuda::getCurrentCUDAStream();
    AT_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "gate_forward", ([&] {
        moe::gate_forward_kernel<scalar_t><<<blocks, threads, 0, stream>>>(
            logits.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), expert.data_ptr<int64_t>(), num_tokens, num_experts);
    }));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {weight, expert};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("gate_forward", &gate_forward, "MoE gate forward (CUDA)");
}
