/*
  https://stackoverflow.com style: "Why is my kernel for the norm of every row no faster than the CPU?"
  I have 4096 vectors of 768 floats and want to normalise each. nvcc -O3 -arch=sm_75
*/
#include <iostream>
#include <vector>
#include <cmath>
#include <random>

#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line, bool abort=true)
{
   if (code != cudaSuccess)
   {
      fprintf(stderr,"GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
      if (abort) exit(code);
   }
}

__global__ void normalizeRows(float* data, float* norms, int rows, int cols)
{
    int r = threadIdx.x + blockIdx.x * blockDim.x;
    if (r < rows)
    {
        float s = 0;
        for (int c = 0; c < cols; c++)
            s += data[r * cols + c] * data[r * cols + c];
        float n = sqrt(s);
        norms[r] = n;
        for (int c = 0; c < cols; c++)
            data[r * cols + c] = data[r * cols + c] / (n + 1e-12f);
    }
}

int main()
{
    const int rows = 4096, cols = 768;
    std::vector<float> host(rows * cols), hostNorms(rows);
    std::mt19937 gen(42);
    std::uniform_real_distribution<float> dist(-1.0f, 1.0f);
    for (auto& v : host) v = dist(gen);

    float *dev = nullptr, *devNorms = nullptr;
    gpuErrchk(cudaMalloc(&dev, host.size() * sizeof(float)));
    gpuErrchk(cudaMalloc(&devNorms, rows * sizeof(float)));
    gpuErrchk(cudaMemcpy(dev, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice));

    cudaEvent_t a, b;
    cudaEventCreate(&a); cudaEventCreate(&b);
    cudaEventRecord(a);
    normalizeRows<<<(rows + 127) / 128, 128>>>(dev, devNorms, rows, cols);
    cudaEventRecord(b);
    gpuErrchk(cudaPeekAtLastError());
    gpuErrchk(cudaDeviceSynchronize());
    float ms; cudaEventElapsedTime(&ms, a, b);

    gpuErrchk(cudaMemcpy(host.data(), dev, host.size() * sizeof(float), cudaMemcpyDeviceToHost));
    gpuErrchk(cudaMemcpy(hostNorms.data(), devNorms, rows * sizeof(float), cudaMemcpyDeviceToHost));
    std::cout << ms << " ms, first norm " << hostNorms[0] << std::endl;
    cudaFree(dev); cudaFree(devNorms);
}
