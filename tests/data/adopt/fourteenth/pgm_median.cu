// 3x3 median filter for PGM images. Assignment 3, COMP 426.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 16

typedef unsigned char pixel;

__device__ inline void sort2(pixel& a, pixel& b)
{
    pixel lo = min(a, b);
    b = max(a, b);
    a = lo;
}

__global__ void median3x3(const pixel* input, pixel* output, int width, int height)
{
    int x = blockIdx.x * BLOCK + threadIdx.x;
    int y = blockIdx.y * BLOCK + threadIdx.y;
    if (x >= width || y >= height) return;
    if (x == 0 || y == 0 || x == width - 1 || y == height - 1) {
        output[y * width + x] = input[y * width + x];
        return;
    }
    pixel w[9];
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            w[(dy + 1) * 3 + dx + 1] = input[(y + dy) * width + x + dx];
    /* bubble the five smallest to the front */
    for (int i = 0; i < 5; i++)
        for (int j = i + 1; j < 9; j++)
            sort2(w[i], w[j]);
    output[y * width + x] = w[4];
}

static pixel* read_pgm(const char* path, int* width, int* height)
{
    FILE* fp = fopen(path, "rb");
    if (!fp) { perror(path); exit(1); }
    char magic[3];
    int maxval;
    if (fscanf(fp, "%2s %d %d %d", magic, width, height, &maxval) != 4 || strcmp(magic, "P5") != 0) {
        fprintf(stderr, "not a binary PGM\n");
        exit(1);
    }
    fgetc(fp);
    pixel* data = (pixel*)malloc((*width) * (*height));
    if (fread(data, 1, (*width) * (*height), fp) != (size_t)(*width) * (*height)) exit(1);
    fclose(fp);
    return data;
}

static void write_pgm(const char* path, const pixel* data, int width, int height)
{
    FILE* fp = fopen(path, "wb");
    fprintf(fp, "P5\n%d %d\n255\n", width, height);
    fwrite(data, 1, width * height, fp);
    fclose(fp);
}

int main(int argc, char** argv)
{
    if (argc != 3) {
        printf("usage: %s in.pgm out.pgm\n", argv[0]);
        return 1;
    }
    int width, height;
    pixel* image = read_pgm(argv[1], &width, &height);
    pixel *d_in, *d_out;
    cudaMalloc(&d_in, width * height);
    cudaMalloc(&d_out, width * height);
    cudaMemcpy(d_in, image, width * height, cudaMemcpyHostToDevice);

    dim3 threads(BLOCK, BLOCK);
    dim3 blocks((width - 1) / BLOCK + 1, (height - 1) / BLOCK + 1);
    median3x3<<<blocks, threads>>>(d_in, d_out, width, height);
    cudaError_t err = cudaGetLastError();
    if (err != cudaSuccess) printf("%s\n", cudaGetErrorString(err));

    cudaMemcpy(image, d_out, width * height, cudaMemcpyDeviceToHost);
    write_pgm(argv[2], image, width, height);
    free(image);
    cudaFree(d_in);
    cudaFree(d_out);
    return 0;
}
