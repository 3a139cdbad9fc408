// Image rotation with bilinear filtering.
// This used texture references, which are gone in CUDA 12, so I replaced tex2D() with my own tex2D_ptr().
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <string>
#include <vector>

#ifndef M_PI
#define M_PI 3.14159265358979323846
#endif

#define checkCuda(val) check_cuda((val), #val, __FILE__, __LINE__)
void check_cuda(cudaError_t result, char const *const func, const char *const file, int const line) {
    if (result) {
        fprintf(stderr, "CUDA error = %d at %s:%d '%s'\n", static_cast<unsigned int>(result), file, line, func);
        cudaDeviceReset();
        exit(99);
    }
}

struct TexPtr {
    const float *data;
    int w, h;
};

__device__ float fetch(TexPtr t, int x, int y) {
    x = max(0, min(x, t.w - 1));
    y = max(0, min(y, t.h - 1));
    return t.data[y * t.w + x];
}

__device__ float tex2D_ptr(TexPtr t, float u, float v) {
    u -= 0.5f;
    v -= 0.5f;
    int x0 = (int)floorf(u), y0 = (int)floorf(v);
    float fx = u - x0, fy = v - y0;
    float a = fetch(t, x0, y0) * (1 - fx) + fetch(t, x0 + 1, y0) * fx;
    float b = fetch(t, x0, y0 + 1) * (1 - fx) + fetch(t, x0 + 1, y0 + 1) * fx;
    return a * (1 - fy) + b * fy;
}

__global__ void rotateKernel(float *output, TexPtr tex, int width, int height, float theta) {
    unsigned int x = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;

    float u = x / (float)width - 0.5f;
    float v = y / (float)height - 0.5f;
    float tu = u * cosf(theta) - v * sinf(theta) + 0.5f;
    float tv = v * cosf(theta) + u * sinf(theta) + 0.5f;
    output[y * width + x] = tex2D_ptr(tex, tu * width, tv * height);
}

int main(int argc, char **argv) {
    int width = 1024, height = 1024;
    float angle = 30.0f;
    std::string out_name = "out.raw";
    for (int i = 1; i < argc; i++) {
        std::string a = argv[i];
        if (a == "-a" && i + 1 < argc) angle = atof(argv[++i]);
        else if (a == "-o" && i + 1 < argc) out_name = argv[++i];
        else if (a == "-s" && i + 1 < argc) width = height = atoi(argv[++i]);
    }
    size_t n = (size_t)width * height;
    std::vector<float> img(n), res(n);
    for (size_t i = 0; i < n; i++) img[i] = ((i % width) / 32 + (i / width) / 32) % 2 ? 1.f : 0.f;

    float *d_img, *d_res;
    checkCuda(cudaMalloc(&d_img, n * sizeof(float)));
    checkCuda(cudaMalloc(&d_res, n * sizeof(float)));
    checkCuda(cudaMemcpy(d_img, img.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    TexPtr tex = {d_img, width, height};

    dim3 dimBlock(8, 8, 1);
    dim3 dimGrid((width + 7) / 8, (height + 7) / 8, 1);
    rotateKernel<<<dimGrid, dimBlock>>>(d_res, tex, width, height, (float)(angle * M_PI / 180.0));
    checkCuda(cudaGetLastError());
    checkCuda(cudaDeviceSynchronize());
    checkCuda(cudaMemcpy(res.data(), d_res, n * sizeof(float), cudaMemcpyDeviceToHost));
    if (FILE *f = fopen(out_name.c_str(), "wb")) {
        fwrite(res.data(), sizeof(float), n, f);
        fclose(f);
    }
    checkCuda(cudaFree(d_img));
    checkCuda(cudaFree(d_res));
    return 0;
}
