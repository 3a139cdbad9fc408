/* bilateral filter on RGBA images
 *
 * Makefile:
 *   bilateral: bilateral_make.cu
 *           nvcc -O2 -DRADIUS=3 -DBLOCK_X=16 -DBLOCK_Y=16 $< -o $@
 */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda.h>

#ifndef SIGMA_R
#define SIGMA_R 0.1f
#endif

typedef struct { int w, h; uchar4 *data; } image_t;

static int iDivUp(int a, int b) { return (a % b != 0) ? (a / b + 1) : (a / b); }

__constant__ float c_gauss[2 * RADIUS + 1];

__device__ float dist2(uchar4 a, uchar4 b)
{
    float dx = (a.x - b.x) / 255.0f, dy = (a.y - b.y) / 255.0f, dz = (a.z - b.z) / 255.0f;
    return dx * dx + dy * dy + dz * dz;
}

__global__ void bilateral(const uchar4 *src, uchar4 *dst, int w, int h)
{
    int x = blockIdx.x * BLOCK_X + threadIdx.x;
    int y = blockIdx.y * BLOCK_Y + threadIdx.y;
    if (x >= w || y >= h) return;
    uchar4 center = src[y * w + x];
    float sum = 0.f, r = 0.f, g = 0.f, b = 0.f;
    for (int dy = -RADIUS; dy <= RADIUS; dy++) {
        for (int dx = -RADIUS; dx <= RADIUS; dx++) {
            int xx = min(max(x + dx, 0), w - 1), yy = min(max(y + dy, 0), h - 1);
            uchar4 c = src[yy * w + xx];
            float f = c_gauss[dx + RADIUS] * c_gauss[dy + RADIUS] * expf(-dist2(c, center) / (2 * SIGMA_R * SIGMA_R));
            sum += f;
            r += f * c.x; g += f * c.y; b += f * c.z;
        }
    }
    dst[y * w + x] = make_uchar4(r / sum, g / sum, b / sum, center.w);
}

image_t *load_image(const char *name)
{
    FILE *fp = fopen(name, "rb");
    if (!fp) { perror(name); exit(1); }
    image_t *img = (image_t *)malloc(sizeof(image_t));
    if (fscanf(fp, "P6 %d %d 255", &img->w, &img->h) != 2) { fprintf(stderr, "not a ppm\n"); exit(1); }
    fgetc(fp);
    img->data = (uchar4 *)malloc(img->w * img->h * sizeof(uchar4));
    for (int i = 0; i < img->w * img->h; i++) {
        img->data[i].x = fgetc(fp); img->data[i].y = fgetc(fp); img->data[i].z = fgetc(fp); img->data[i].w = 255;
    }
    fclose(fp);
    return img;
}

int main(int argc, char **argv)
{
    if (argc < 3) { printf("usage: %s in.ppm out.ppm\n", argv[0]); return 1; }
    image_t *img = load_image(argv[1]);
    size_t size = img->w * img->h * sizeof(uchar4);
    float gauss[2 * RADIUS + 1];
    for (int i = -RADIUS; i <= RADIUS; i++) gauss[i + RADIUS] = expf(-(i * i) / (2.0f * 2.0f * 2.0f));
    cudaMemcpyToSymbol(c_gauss, gauss, (2 * RADIUS + 1) * sizeof(float));

    uchar4 *d_src, *d_dst;
    cudaMalloc((void**)&d_src, size);
    cudaMalloc((void**)&d_dst, size);
    cudaMemcpy(d_src, img->data, size, cudaMemcpyHostToDevice);
    dim3 threads(BLOCK_X, BLOCK_Y);
    dim3 blocks(iDivUp(img->w, BLOCK_X), iDivUp(img->h, BLOCK_Y));
    bilateral<<<blocks, threads>>>(d_src, d_dst, img->w, img->h);
    if (cudaGetLastError() != cudaSuccess) { printf("launch failed\n"); return 1; }
    cudaMemcpy(img->data, d_dst, size, cudaMemcpyDeviceToHost);

    FILE *out = fopen(argv[2], "wb");
    fprintf(out, "P6\n%d %d\n255\n", img->w, img->h);
    for (int i = 0; i < img->w * img->h; i++) {
        fputc(img->data[i].x, out); fputc(img->data[i].y, out); fputc(img->data[i].z, out);
    }
    fclose(out);
    cudaFree(d_src); cudaFree(d_dst);
    free(img->data); free(img);
    return 0;
}
