#define STB_IMAGE_IMPLEMENTATION
#include "stb_image.h"
#include "stb_image_write.h"
#include <cstdio>

__global__ void sepia(unsigned char* pixels, int width, int height, int channels) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  int i = (y * width + x) * channels;
  float r = pixels[i], g = pixels[i + 1], b = pixels[i + 2];
  pixels[i] = (unsigned char)fminf(255.0f, 0.393f * r + 0.769f * g + 0.189f * b);
  pixels[i + 1] = (unsigned char)fminf(255.0f, 0.349f * r + 0.686f * g + 0.168f * b);
  pixels[i + 2] = (unsigned char)fminf(255.0f, 0.272f * r + 0.534f * g + 0.131f * b);
}

int main(int argc, char* argv[]) {
  int width, height, channels;
  unsigned char* image = stbi_load(argv[1], &width, &height, &channels, 0);
  if (!image) return 1;
  size_t bytes = (size_t)width * height * channels;
  unsigned char* d_pixels;
  cudaMalloc(&d_pixels, bytes);
  cudaMemcpy(d_pixels, image, bytes, cudaMemcpyHostToDevice);
  dim3 threads(16, 16);
  dim3 blocks((width + 15) / 16, (height + 15) / 16);
  sepia<<<blocks, threads>>>(d_pixels, width, height, channels);
  cudaMemcpy(image, d_pixels, bytes, cudaMemcpyDeviceToHost);
  stbi_write_png("sepia.png", width, height, channels, image, width * channels);
  cudaFree(d_pixels);
  stbi_image_free(image);
}
