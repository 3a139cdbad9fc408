// ray tracer with spheres in constant memory. my first CUDA program that draws something :-)
#include <cuda.h>
#include <iostream>
#include <math.h>
#include <stdlib.h>

#define rnd( x ) (x * rand() / RAND_MAX)
#define INF     2e10f
#define SPHERES 20
#define WIDTH 512
#define HEIGHT 512

struct Sphere {
    float   r,b,g;
    float   radius;
    float   x,y,z;
    __device__ float hit( float ox, float oy, float *n ) {
        float dx = ox - x;
        float dy = oy - y;
        if (dx*dx + dy*dy < radius*radius) {
            float dz = sqrtf( radius*radius - dx*dx - dy*dy );
            *n = dz / sqrtf( radius * radius );
            return dz + z;
        }
        return -INF;
    }
};

__constant__ Sphere s[SPHERES];

__global__ void render( unsigned char *ptr, int width, int height ) {
    // map from threadIdx/BlockIdx to pixel position
    int x = threadIdx.x + blockIdx.x * blockDim.x;
    int y = threadIdx.y + blockIdx.y * blockDim.y;
    if (x >= width || y >= height) return;
    int offset = x + y * width;
    float   ox = (x - width/2);
    float   oy = (y - height/2);

    float   r=0, g=0, b=0;
    float   maxz = -INF;
    for(int i=0; i<SPHERES; i++) {
        float   n;
        float   t = s[i].hit( ox, oy, &n );
        if (t > maxz) {
            float fscale = n;
            r = s[i].r * fscale;
            g = s[i].g * fscale;
            b = s[i].b * fscale;
            maxz = t;
        }
    }

    ptr[offset*4 + 0] = (int)(r * 255);
    ptr[offset*4 + 1] = (int)(g * 255);
    ptr[offset*4 + 2] = (int)(b * 255);
    ptr[offset*4 + 3] = 255;
}

int main()
{
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    cudaEventRecord(start, 0);

    unsigned char *dev_bitmap;
    unsigned char *bitmap = new unsigned char[WIDTH*HEIGHT*4];
    cudaMalloc((void**)&dev_bitmap, WIDTH*HEIGHT*4);

    // allocate temp memory, initialize it, copy to constant
    // memory on the GPU, then free our temp memory
    Sphere *temp_s = (Sphere*)malloc( sizeof(Sphere) * SPHERES );
    for (int i=0; i<SPHERES; i++) {
        temp_s[i].r = rnd( 1.0f );
        temp_s[i].g = rnd( 1.0f );
        temp_s[i].b = rnd( 1.0f );
        temp_s[i].x = rnd( 1000.0f ) - 500;
        temp_s[i].y = rnd( 1000.0f ) - 500;
        temp_s[i].z = rnd( 1000.0f ) - 500;
        temp_s[i].radius = rnd( 100.0f ) + 20;
    }
    cudaMemcpyToSymbol( s, temp_s, sizeof(Sphere) * SPHERES );
    free( temp_s );

    dim3    grids((WIDTH+15)/16,(HEIGHT+15)/16);
    dim3    threads(16,16);
    render<<<grids,threads>>>( dev_bitmap, WIDTH, HEIGHT );

    cudaMemcpy(bitmap, dev_bitmap, WIDTH*HEIGHT*4, cudaMemcpyDeviceToHost);

    cudaEventRecord( stop, 0 );
    cudaEventSynchronize( stop );
    float elapsedTime;
    cudaEventElapsedTime( &elapsedTime, start, stop );
    std::cout << "Time to generate: " << elapsedTime << " ms" << std::endl;

    cudaFree( dev_bitmap );
    delete[] bitmap;
    return 0;
}
