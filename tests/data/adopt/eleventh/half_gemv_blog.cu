// Blog post "GEMV, part 1: the naive version in half precision"
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cassert>
#include <iostream>

#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))

#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char* file, int line) {
  if (code != cudaSuccess) {
    fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
    exit(code);
  }
}

__global__ void gemv_naive(const __half* mat, const __half* vec, __half* res, unsigned int n_rows, unsigned int n_cols) {
  unsigned int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < n_rows) {
    float sum = 0;
    for (unsigned int c = 0; c < n_cols; c++) {
      sum += __half2float(mat[row * n_cols + c]) * __half2float(vec[c]);
    }
    res[row] = __float2half(sum);
  }
}

__global__ void fill_random(__half* p, int n, unsigned int seed) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    unsigned int s = seed ^ (i * 747796405u + 2891336453u);
    s = ((s >> ((s >> 28) + 4)) ^ s) * 277803737u;
    p[i] = __float2half((float)(s >> 16) / 65536.0f - 0.5f);
  }
}

struct SimpleTensor {
  SimpleTensor(unsigned int height, unsigned int width) : height_(height), width_(width) {
    gpuErrchk(cudaMalloc((void**)&data_, height_ * width_ * sizeof(__half)));
  }
  ~SimpleTensor() { gpuErrchk(cudaFree(data_)); }
  void reset() {
    int total = height_ * width_;
    fill_random<<<CEIL_DIV(total, 256), 256>>>(data_, total, 7);
  }
  __half* device_data() const { return data_; }
  unsigned int width_, height_;
  __half* data_ = nullptr;
};

SimpleTensor solve_gemv_naive(const SimpleTensor& mat, const SimpleTensor& vec) {
  assert(mat.width_ == vec.height_);
  SimpleTensor result(mat.height_, 1);
  dim3 block_dim(256);
  dim3 grid_dim(CEIL_DIV(mat.height_, block_dim.x));
  gemv_naive<<<grid_dim, block_dim>>>(mat.device_data(), vec.device_data(), result.device_data(), mat.height_, mat.width_);
  gpuErrchk(cudaDeviceSynchronize());
  return result;
}

int main(int argc, char** argv) {
  unsigned int size = 4096;
  if (argc > 1) size = std::stoi(argv[1]);
  SimpleTensor mat(size, size);
  SimpleTensor vec(size, 1);
  mat.reset();
  vec.reset();
  SimpleTensor res = solve_gemv_naive(mat, vec);
  std::cout << "done " << res.height_ << std::endl;
}
