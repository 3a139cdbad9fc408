// Histogram equalization of a grayscale image. CS 344, problem set 3 (mine).
#include <opencv2/opencv.hpp>
#include <cuda_runtime.h>
#include <iostream>
#include <cassert>

using namespace std;

const int BINS = 256;

template <typename T>
void checkErr(T err, const char* const func, const char* const file, const int line) {
  if (err != cudaSuccess) {
    cerr << "CUDA error at: " << file << ":" << line << " " << func << endl;
    exit(1);
  }
}
#define checkCudaErrors(val) checkErr((val), #val, __FILE__, __LINE__)

__global__ void histo(const unsigned char* const img, unsigned int* const bins, const size_t numPixels) {
  __shared__ unsigned int local[BINS];
  local[threadIdx.x] = 0;
  __syncthreads();
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < numPixels; i += gridDim.x * blockDim.x)
    atomicAdd(&local[img[i]], 1u);
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

__global__ void makeLut(const unsigned int* const bins, unsigned char* const lut, const size_t numPixels) {
  __shared__ unsigned int cdf[BINS];
  const int t = threadIdx.x;
  cdf[t] = bins[t];
  __syncthreads();
  for (int d = 1; d < BINS; d <<= 1) {
    unsigned int v = t >= d ? cdf[t - d] : 0;
    __syncthreads();
    cdf[t] += v;
    __syncthreads();
  }
  lut[t] = (unsigned char)((255ull * cdf[t]) / numPixels);
}

__global__ void applyLut(const unsigned char* const img, const unsigned char* const lut, unsigned char* const out,
                         const int rows, const int cols) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= cols || y >= rows) return;
  out[y * cols + x] = lut[img[y * cols + x]];
}

int main(int argc, char** argv) {
  cv::Mat image = cv::imread(argv[1], cv::IMREAD_GRAYSCALE);
  if (image.empty()) { cerr << "no image" << endl; return 1; }
  const int rows = image.rows, cols = image.cols;
  const size_t numPixels = (size_t)rows * cols;

  unsigned char *d_img, *d_out, *d_lut;
  unsigned int* d_bins;
  checkCudaErrors(cudaMalloc(&d_img, numPixels));
  checkCudaErrors(cudaMalloc(&d_out, numPixels));
  checkCudaErrors(cudaMalloc(&d_lut, BINS));
  checkCudaErrors(cudaMalloc(&d_bins, BINS * sizeof(unsigned int)));
  checkCudaErrors(cudaMemcpy(d_img, image.ptr<unsigned char>(0), numPixels, cudaMemcpyHostToDevice));
  checkCudaErrors(cudaMemset(d_bins, 0, BINS * sizeof(unsigned int)));

  histo<<<64, BINS>>>(d_img, d_bins, numPixels);
  makeLut<<<1, BINS>>>(d_bins, d_lut, numPixels);
  const dim3 blockSize(16, 16);
  const dim3 gridSize(cols / 16 + 1, rows / 16 + 1);
  applyLut<<<gridSize, blockSize>>>(d_img, d_lut, d_out, rows, cols);
  cudaDeviceSynchronize();
  checkCudaErrors(cudaGetLastError());

  cv::Mat result(rows, cols, CV_8UC1);
  checkCudaErrors(cudaMemcpy(result.data, d_out, numPixels, cudaMemcpyDeviceToHost));
  cv::imwrite("out.png", result);
  return 0;
}
