// Textbook: histogram of the letters of a text, four letters a bin, with interleaved coarsening.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cuda_runtime.h>

#define NUM_BINS 7
#define BLOCK_SIZE 256

__global__ void histo_private_kernel(char* data, unsigned int length, unsigned int* histo) {
    __shared__ unsigned int histo_s[NUM_BINS];
    for (unsigned int bin = threadIdx.x; bin < NUM_BINS; bin += blockDim.x) {
        histo_s[bin] = 0u;
    }
    __syncthreads();
    unsigned int tid = blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned int i = tid; i < length; i += blockDim.x * gridDim.x) {
        int alphabet_position = data[i] - 'a';
        if (alphabet_position >= 0 && alphabet_position < 26) {
            atomicAdd(&(histo_s[alphabet_position / 4]), 1);
        }
    }
    __syncthreads();
    for (unsigned int bin = threadIdx.x; bin < NUM_BINS; bin += blockDim.x) {
        unsigned int binValue = histo_s[bin];
        if (binValue > 0) {
            atomicAdd(&(histo[bin]), binValue);
        }
    }
}

int main(int argc, char** argv) {
    const char* file_name = argc > 1 ? argv[1] : "big.txt";
    FILE* f = fopen(file_name, "rb");
    if (!f) { perror(file_name); return 1; }
    fseek(f, 0, SEEK_END);
    unsigned int length = ftell(f);
    rewind(f);
    char* text_h = (char*)malloc(length);
    fread(text_h, 1, length, f);
    fclose(f);

    char* text_d;
    unsigned int* histo_d;
    unsigned int histo_h[NUM_BINS];
    cudaMalloc((void**)&text_d, length);
    cudaMalloc((void**)&histo_d, NUM_BINS * sizeof(unsigned int));
    cudaMemcpy(text_d, text_h, length, cudaMemcpyHostToDevice);
    cudaMemset(histo_d, 0, NUM_BINS * sizeof(unsigned int));

    cudaDeviceProp prop;
    cudaGetDeviceProperties(&prop, 0);
    int blocks = prop.multiProcessorCount * 4;
    histo_private_kernel<<<blocks, BLOCK_SIZE>>>(text_d, length, histo_d);
    cudaDeviceSynchronize();

    cudaMemcpy(histo_h, histo_d, NUM_BINS * sizeof(unsigned int), cudaMemcpyDeviceToHost);
    for (int i = 0; i < NUM_BINS; i++)
        printf("%c-%c: %u\n", 'a' + 4 * i, i == 6 ? 'z' : 'a' + 4 * i + 3, histo_h[i]);
    cudaFree(text_d);
    cudaFree(histo_d);
    free(text_h);
}
