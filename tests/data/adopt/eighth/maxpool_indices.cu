#include <torch/extension.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")

template <typename scalar_t>
__global__ void max_pool2d_forward(const scalar_t* __restrict__ input, scalar_t* __restrict__ output,
                                   int* __restrict__ indices, int channels, int height, int width, int out_h, int out_w,
                                   int kernel, int stride) {
  const int ow = blockIdx.x * blockDim.x + threadIdx.x;
  const int oh = blockIdx.y;
  const int nc = blockIdx.z;
  if (ow >= out_w) return;
  const scalar_t* plane = input + nc * height * width;
  int best = (oh * stride) * width + ow * stride;
  scalar_t value = plane[best];
  for (int dy = 0; dy < kernel; ++dy)
    for (int dx = 0; dx < kernel; ++dx) {
      const int at = (oh * stride + dy) * width + ow * stride + dx;
      if (plane[at] > value) {
        value = plane[at];
        best = at;
      }
    }
  output[(nc * out_h + oh) * out_w + ow] = value;
  indices[(nc * out_h + oh) * out_w + ow] = best;
}

std::vector<torch::Tensor> max_pool2d(torch::Tensor input, int kernel = 2, int stride = 2) {
  CHECK_CUDA(input);
  const auto batch = input.size(0), channels = input.size(1), height = input.size(2), width = input.size(3);
  const int out_h = (height - kernel) / stride + 1, out_w = (width - kernel) / stride + 1;
  auto output = torch::empty({batch, channels, out_h, out_w}, input.options());
  auto indices = torch::empty({batch, channels, out_h, out_w}, input.options().dtype(torch::kInt32));
  const dim3 threads(64);
  const dim3 blocks((out_w + 63) / 64, out_h, batch * channels);
  AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), "max_pool2d", ([&] {
    max_pool2d_forward<scalar_t><<<blocks, threads>>>(input.data_ptr<scalar_t>(), output.data_ptr<scalar_t>(),
        indices.data_ptr<int>(), channels, height, width, out_h, out_w, kernel, stride);
  }));
  return {output, indices};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &max_pool2d); }
