// Blog post "CUDA graphs in 60 lines": a separable 9-tap blur, captured once and replayed per frame.
#include <cuda_runtime.h>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

#define cudaCheck(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char* file, int line, bool abort = true)
{
    if (code != cudaSuccess) {
        fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
        if (abort) exit(code);
    }
}

constexpr int R = 4;
__constant__ float c_taps[2 * R + 1];

__global__ void blur_rows(const float* in, float* out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y;
    if (x >= width) return;
    float s = 0.f;
    for (int k = -R; k <= R; ++k) {
        int xx = x + k;
        if (xx < 0) xx = 0;
        if (xx > width - 1) xx = width - 1;
        s += c_taps[k + R] * in[y * width + xx];
    }
    out[y * width + x] = s;
}

__global__ void blur_cols(const float* in, float* out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y;
    if (x >= width) return;
    float s = 0.f;
    for (int k = -R; k <= R; ++k) {
        int yy = y + k;
        if (yy < 0) yy = 0;
        if (yy > height - 1) yy = height - 1;
        s += c_taps[k + R] * in[yy * width + x];
    }
    out[y * width + x] = s;
}

int main()
{
    const int width = 1280, height = 720, frames = 100;

    std::vector<float> taps(2 * R + 1);
    auto gauss = [](int k, float sigma) { return std::exp(-0.5f * k * k / (sigma * sigma)); };
    for (int k = -R; k <= R; ++k) taps[k + R] = gauss(k, 1.7f);
    const float norm = std::accumulate(taps.begin(), taps.end(), 0.f);
    for (auto& t : taps) t /= norm;
    cudaCheck(cudaMemcpyToSymbol(c_taps, taps.data(), taps.size() * sizeof(float)));

    float *frame, *tmp, *blurred;
    cudaCheck(cudaMalloc(&frame, width * height * sizeof(float)));
    cudaCheck(cudaMalloc(&tmp, width * height * sizeof(float)));
    cudaCheck(cudaMalloc(&blurred, width * height * sizeof(float)));

    std::vector<float> host(width * height);
    for (size_t i = 0; i < host.size(); ++i) host[i] = float(i % 255) / 255.f;

    cudaStream_t stream;
    cudaCheck(cudaStreamCreate(&stream));
    cudaGraph_t graph;
    cudaGraphExec_t exec;

    dim3 threads(128);
    dim3 blocks((width + threads.x - 1) / threads.x, height);
    cudaCheck(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    cudaCheck(cudaMemcpyAsync(frame, host.data(), width * height * sizeof(float), cudaMemcpyHostToDevice, stream));
    blur_rows<<<blocks, threads, 0, stream>>>(frame, tmp, width, height);
    blur_cols<<<blocks, threads, 0, stream>>>(tmp, blurred, width, height);
    cudaCheck(cudaMemcpyAsync(host.data(), blurred, width * height * sizeof(float), cudaMemcpyDeviceToHost, stream));
    cudaCheck(cudaStreamEndCapture(stream, &graph));
    cudaCheck(cudaGraphInstantiate(&exec, graph, NULL, NULL, 0));

    auto t0 = std::chrono::steady_clock::now();
    for (int i = 0; i < frames; ++i) cudaCheck(cudaGraphLaunch(exec, stream));
    cudaCheck(cudaStreamSynchronize(stream));
    auto t1 = std::chrono::steady_clock::now();
    printf("%.3f ms per frame\n", std::chrono::duration<double, std::milli>(t1 - t0).count() / frames);

    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaFree(frame); cudaFree(tmp); cudaFree(blurred);
}
