// Smoothing a sensor trace with a moving average.
// nvcc -O3 -o moving_average moving_average.cu && ./moving_average 1000000
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>

#define CUDA_CHECK(call)                                                            \
  do {                                                                              \
    cudaError_t status_ = call;                                                     \
    if (status_ != cudaSuccess) {                                                   \
      fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(status_)); \
      exit(EXIT_FAILURE);                                                           \
    }                                                                               \
  } while (0)

constexpr int kThreads = 128;

template <typename T, int RADIUS>
__global__ void movingAverage(const T* __restrict__ signal, T* __restrict__ smooth, size_t n) {
  __shared__ T window[kThreads + 2 * RADIUS];
  const long long i = (long long)blockIdx.x * kThreads + threadIdx.x;
  const int lane = threadIdx.x + RADIUS;
  window[lane] = i < (long long)n ? signal[i] : T(0);
  if (threadIdx.x < RADIUS) {
    const long long left = i - RADIUS;
    const long long right = i + kThreads;
    window[lane - RADIUS] = left >= 0 && left < (long long)n ? signal[left] : T(0);
    window[lane + kThreads] = right < (long long)n ? signal[right] : T(0);
  }
  __syncthreads();
  if (i >= (long long)n) return;
  T sum = T(0);
  for (int offset = -RADIUS; offset <= RADIUS; ++offset) sum += window[lane + offset];
  smooth[i] = sum / T(2 * RADIUS + 1);
}

int main(int argc, char** argv) {
  const size_t n = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : size_t(1) << 20;
  thrust::host_vector<double> h_signal(n);
  for (size_t i = 0; i < n; ++i) h_signal[i] = std::sin(0.001 * i) + 0.1 * (rand() / (double)RAND_MAX);
  thrust::device_vector<double> d_signal = h_signal;
  thrust::device_vector<double> d_smooth(n);

  const unsigned blocks = static_cast<unsigned>((n + kThreads - 1) / kThreads);
  movingAverage<double, 5><<<blocks, kThreads>>>(thrust::raw_pointer_cast(d_signal.data()),
                                                 thrust::raw_pointer_cast(d_smooth.data()), n);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaDeviceSynchronize());

  thrust::host_vector<double> h_smooth = d_smooth;
  double checksum = 0;
  for (size_t i = 0; i < n; ++i) checksum += h_smooth[i];
  printf("checksum %f\n", checksum);
  return 0;
}
