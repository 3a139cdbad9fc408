// From my post "Colour grading on the GPU, part 2": the matrix lives in constant memory.
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>

struct Grade {
    float matrix[9];
    float lift[3];
    float gamma;
};

__constant__ Grade c_grade;

__global__ void gradeKernel(const float3* src, float3* dst, int width, int height)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    const float3 p = src[y * width + x];
    float3 q;
    q.x = c_grade.matrix[0] * p.x + c_grade.matrix[1] * p.y + c_grade.matrix[2] * p.z + c_grade.lift[0];
    q.y = c_grade.matrix[3] * p.x + c_grade.matrix[4] * p.y + c_grade.matrix[5] * p.z + c_grade.lift[1];
    q.z = c_grade.matrix[6] * p.x + c_grade.matrix[7] * p.y + c_grade.matrix[8] * p.z + c_grade.lift[2];
    q.x = powf(fmaxf(q.x, 0.0f), c_grade.gamma);
    q.y = powf(fmaxf(q.y, 0.0f), c_grade.gamma);
    q.z = powf(fmaxf(q.z, 0.0f), c_grade.gamma);
    dst[y * width + x] = q;
}

static void grade(const std::vector<float3>& in, std::vector<float3>& out, int width, int height, const Grade& g)
{
    float3 *src, *dst;
    size_t bytes = in.size() * sizeof(float3);
    cudaMalloc(&src, bytes);
    cudaMalloc(&dst, bytes);
    cudaMemcpyToSymbol(c_grade, &g, sizeof(g));
    cudaMemcpy(src, in.data(), bytes, cudaMemcpyHostToDevice);
    dim3 threads(8, 8);
    dim3 blocks((width + threads.x - 1) / threads.x, (height + threads.y - 1) / threads.y);
    gradeKernel<<<blocks, threads>>>(src, dst, width, height);
    cudaMemcpy(out.data(), dst, bytes, cudaMemcpyDeviceToHost);
    cudaFree(src);
    cudaFree(dst);
}

int main()
{
    const int width = 1920, height = 1080;
    std::vector<float3> image(width * height), result(width * height);
    for (int i = 0; i < width * height; ++i)
        image[i] = make_float3((i % 256) / 255.0f, (i / 256 % 256) / 255.0f, 0.5f);
    Grade g = {{1.1f, -0.05f, -0.05f, -0.03f, 1.06f, -0.03f, -0.02f, -0.08f, 1.1f}, {0.01f, 0.0f, 0.02f}, 0.9f};
    grade(image, result, width, height, g);
    printf("%f %f %f\n", result[0].x, result[0].y, result[0].z);
    return 0;
}
