// heights.cu - smooth a terrain, `__managed__` so that I don't have to copy
#include <cstdio>
#include <cstdlib>
#include <cmath>

#define W 512
#define H 512
#define R 4

__managed__ float terrain[H][W];
__managed__ float smooth[H][W];
__managed__ float weights[2 * R + 1];

// gauss weights times heights around, weights renormalised at the edges
__global__ void smooth_kernel()
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= W || y >= H) return;
    float sum = 0, norm = 0;
    for (int dy = -R; dy <= R; dy++) {
        for (int dx = -R; dx <= R; dx++) {
            int xx = x + dx, yy = y + dy;
            if (xx >= 0 && xx < W && yy >= 0 && yy < H) {
                float w = weights[dx + R] * weights[dy + R];
                sum += w * terrain[yy][xx];
                norm += w;
            }
        }
    }
    smooth[y][x] = sum / norm;
}

static void check(cudaError_t e, const char *what)
{
    if (e != cudaSuccess) {
        std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
        std::exit(1);
    }
}

int main()
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            terrain[y][x] = std::sin(0.05f * x) * std::cos(0.03f * y) + 0.2f * (std::rand() / (float)RAND_MAX);
    float sigma = R / 2.0f;
    for (int i = -R; i <= R; i++) weights[i + R] = std::exp(-i * i / (2 * sigma * sigma));

    dim3 threads(16, 16);
    dim3 blocks((W + threads.x - 1) / threads.x, (H + threads.y - 1) / threads.y);
    smooth_kernel<<<blocks, threads>>>();
    check(cudaGetLastError(), "launch");
    check(cudaDeviceSynchronize(), "sync");

    double before = 0, after = 0;
    for (int y = 1; y < H; y++)
        for (int x = 1; x < W; x++) {
            before += std::fabs(terrain[y][x] - terrain[y][x - 1]);
            after += std::fabs(smooth[y][x] - smooth[y][x - 1]);
        }
    std::printf("roughness %g -> %g\n", before, after);
    return 0;
}
