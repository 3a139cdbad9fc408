// instance norm for style transfer, one thread = one (image, channel) plane, works in place
#include <cuda_runtime.h>
#include <cstdio>
#include <chrono>

static const float EPSILON = 1e-5f;

__global__ void instance_norm(float *img, const float *gamma, const float *beta, int N, int C, int HW, float eps) {
  int plane = threadIdx.x + blockDim.x * blockIdx.x;
  if (plane >= N * C) return;
  int c = plane % C;
  float *p = img + (long long)plane * HW;

  float mean = 0.0f, var = 0.0f;
  for (int i = 0; i < HW; i++) mean += p[i];
  mean /= HW;
  for (int i = 0; i < HW; i++) var += (p[i] - mean) * (p[i] - mean);
  var /= HW;

  float scale = gamma[c] * rsqrtf(var + eps);
  for (int i = 0; i < HW; i++) p[i] = (p[i] - mean) * scale + beta[c];
}

int main(int argc, char *argv[]) {
  int N = 8, C = 64, H = 28, W = 28;
  int HW = H * W;
  float *img, *gamma, *beta;
  float *himg = new float[N * C * HW];
  float *hg = new float[C], *hb = new float[C];
  for (int i = 0; i < N * C * HW; i++) himg[i] = (i * 37 % 101) / 101.0f;
  for (int i = 0; i < C; i++) { hg[i] = 1.0f; hb[i] = 0.0f; }

  cudaMalloc(&img, sizeof(float) * N * C * HW);
  cudaMalloc(&gamma, sizeof(float) * C);
  cudaMalloc(&beta, sizeof(float) * C);
  cudaMemcpy(img, himg, sizeof(float) * N * C * HW, cudaMemcpyHostToDevice);
  cudaMemcpy(gamma, hg, sizeof(float) * C, cudaMemcpyHostToDevice);
  cudaMemcpy(beta, hb, sizeof(float) * C, cudaMemcpyHostToDevice);

  auto t0 = std::chrono::high_resolution_clock::now();
  int nthreads = 32;
  int nblocks = (N * C + nthreads - 1) / nthreads;
  instance_norm<<<nblocks, nthreads>>>(img, gamma, beta, N, C, HW, EPSILON);
  cudaDeviceSynchronize();
  auto t1 = std::chrono::high_resolution_clock::now();
  printf("%.3f ms\n", std::chrono::duration<double, std::milli>(t1 - t0).count());

  cudaMemcpy(himg, img, sizeof(float) * N * C * HW, cudaMemcpyDeviceToHost);
  printf("%f\n", himg[0]);
  cudaFree(img); cudaFree(gamma); cudaFree(beta);
  delete[] himg; delete[] hg; delete[] hb;
}
