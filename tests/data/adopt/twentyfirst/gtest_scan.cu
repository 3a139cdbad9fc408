#include <gtest/gtest.h>
#include <cuda_runtime.h>
#include <numeric>
#include <vector>

namespace {

constexpr int kBlock = 256;

// exclusive scan of every row, one block per row
__global__ void RowScan(const int* in, int* out, int row_len) {
  __shared__ int temp[2][kBlock];
  const int row = blockIdx.x;
  int carry = 0;
  for (int base = 0; base < row_len; base += kBlock) {
    const int i = base + threadIdx.x;
    int p = 0;
    const int v = i < row_len ? in[row * row_len + i] : 0;
    temp[p][threadIdx.x] = v;
    __syncthreads();
    for (int d = 1; d < kBlock; d <<= 1) {
      const int t = threadIdx.x >= d ? temp[p][threadIdx.x - d] : 0;
      temp[1 - p][threadIdx.x] = temp[p][threadIdx.x] + t;
      p = 1 - p;
      __syncthreads();
    }
    if (i < row_len) out[row * row_len + i] = carry + temp[p][threadIdx.x] - v;
    carry += temp[p][kBlock - 1];
    __syncthreads();
  }
}

class RowScanTest : public ::testing::Test {
 protected:
  void Run(int rows, int len) {
    std::vector<int> in(rows * len), out(rows * len), want(rows * len);
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<int>(i % 17);
    for (int r = 0; r < rows; ++r)
      std::exclusive_scan(in.begin() + r * len, in.begin() + (r + 1) * len, want.begin() + r * len, 0);
    int *d_in = nullptr, *d_out = nullptr;
    ASSERT_EQ(cudaSuccess, cudaMalloc(&d_in, in.size() * sizeof(int)));
    ASSERT_EQ(cudaSuccess, cudaMalloc(&d_out, out.size() * sizeof(int)));
    ASSERT_EQ(cudaSuccess, cudaMemcpy(d_in, in.data(), in.size() * sizeof(int), cudaMemcpyHostToDevice));
    RowScan<<<rows, kBlock>>>(d_in, d_out, len);
    ASSERT_EQ(cudaSuccess, cudaDeviceSynchronize());
    ASSERT_EQ(cudaSuccess, cudaMemcpy(out.data(), d_out, out.size() * sizeof(int), cudaMemcpyDeviceToHost));
    EXPECT_EQ(want, out);
    cudaFree(d_in);
    cudaFree(d_out);
  }
};

TEST_F(RowScanTest, Small) { Run(3, 100); }
TEST_F(RowScanTest, Large) { Run(512, 2000); }

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
