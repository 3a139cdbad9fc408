// Sub-pixel convolution's last step, as in the ESPCN blog post: (N, C*r*r, H, W) -> (N, C, H*r, W*r)
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CUDA_CHECK(call)                                                        \
    do {                                                                        \
        cudaError_t err_ = (call);                                              \
        if (err_ != cudaSuccess) {                                              \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(err_)); \
            exit(EXIT_FAILURE);                                                 \
        }                                                                       \
    } while (0)

__global__ void pixel_shuffle(const float *in, float *out, int N, int C, int H, int W, int r)
{
    int ow = blockIdx.x * blockDim.x + threadIdx.x;
    int oh = blockIdx.y * blockDim.y + threadIdx.y;
    int nc = blockIdx.z;
    int OH = H * r, OW = W * r;
    if (ow >= OW || oh >= OH) return;
    int n = nc / C, c = nc % C;
    int h = oh / r, w = ow / r;
    int sub = (oh % r) * r + (ow % r);
    int ic = c * r * r + sub;
    out[((n * C + c) * OH + oh) * OW + ow] = in[((n * C * r * r + ic) * H + h) * W + w];
}

int main(int argc, char **argv)
{
    int N = 1, C = 3, H = 180, W = 320, r = 3;
    if (argc > 1) r = atoi(argv[1]);
    size_t count = (size_t)N * C * r * r * H * W;
    float *h_in = (float *)malloc(count * sizeof(float));
    float *h_out = (float *)malloc(count * sizeof(float));
    for (size_t i = 0; i < count; i++) h_in[i] = (float)rand() / RAND_MAX;

    float *d_in, *d_out;
    CUDA_CHECK(cudaMalloc(&d_in, count * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_out, count * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(d_in, h_in, count * sizeof(float), cudaMemcpyHostToDevice));

    dim3 block(16, 16);
    dim3 grid((W * r + block.x - 1) / block.x, (H * r + block.y - 1) / block.y, N * C);
    pixel_shuffle<<<grid, block>>>(d_in, d_out, N, C, H, W, r);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(h_out, d_out, count * sizeof(float), cudaMemcpyDeviceToHost));
    printf("out[0] = %f\n", h_out[0]);
    cudaFree(d_in);
    cudaFree(d_out);
    free(h_in);
    free(h_out);
    return 0;
}
