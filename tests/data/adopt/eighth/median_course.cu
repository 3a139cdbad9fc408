/* Lab 5: 3x3 median filter of a grey image with a tile in shared memory */
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define TILE 16
#define RADIUS 1
#define SIDE (TILE + 2 * RADIUS)

typedef unsigned char uchar;

__device__ void order(uchar &a, uchar &b) {
    if (a > b) { uchar t = a; a = b; b = t; }
}

__global__ void medianFilter(const uchar *image, uchar *result, int width, int height) {
    __shared__ uchar tile[SIDE][SIDE];
    const int x0 = blockIdx.x * TILE - RADIUS, y0 = blockIdx.y * TILE - RADIUS;
    for (int i = threadIdx.y * TILE + threadIdx.x; i < SIDE * SIDE; i += TILE * TILE) {
        int x = min(max(x0 + i % SIDE, 0), width - 1);
        int y = min(max(y0 + i / SIDE, 0), height - 1);
        tile[i / SIDE][i % SIDE] = image[y * width + x];
    }
    __syncthreads();
    const int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    if (x >= width || y >= height) return;
    uchar v[9];
    for (int dy = 0; dy < 3; dy++)
        for (int dx = 0; dx < 3; dx++) v[dy * 3 + dx] = tile[threadIdx.y + dy][threadIdx.x + dx];
    for (int i = 0; i < 5; i++)
        for (int j = i + 1; j < 9; j++) order(v[i], v[j]);
    result[y * width + x] = v[4];
}

static uchar *readPgm(const char *name, int *w, int *h) {
    FILE *f = fopen(name, "rb");
    int max;
    fscanf(f, "P5 %d %d %d", w, h, &max);
    fgetc(f);
    uchar *data = new uchar[*w * *h];
    fread(data, 1, *w * *h, f);
    fclose(f);
    return data;
}

int main(int argc, char **argv) {
    int width, height;
    uchar *host = readPgm(argc > 1 ? argv[1] : "lena.pgm", &width, &height);
    uchar *in, *out;
    size_t size = width * height * sizeof(uchar);
    cudaMalloc(&in, size);
    cudaMalloc(&out, size);
    cudaMemcpy(in, host, size, cudaMemcpyHostToDevice);
    dim3 block(TILE, TILE);
    dim3 grid((width - 1) / TILE + 1, (height - 1) / TILE + 1);
    medianFilter<<<grid, block>>>(in, out, width, height);
    cudaMemcpy(host, out, size, cudaMemcpyDeviceToHost);
    cudaFree(in);
    cudaFree(out);
    delete[] host;
    return 0;
}
