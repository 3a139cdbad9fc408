/*
 * Chapter 5 exercise: matrix * vector. One thread computes one element of the result.
 */
#include <stdio.h>
#include <stdlib.h>

static void HandleError( cudaError_t err, const char *file, int line ) {
    if (err != cudaSuccess) {
        printf( "%s in %s at line %d\n", cudaGetErrorString( err ), file, line );
        exit( EXIT_FAILURE );
    }
}
#define HANDLE_ERROR( err ) (HandleError( err, __FILE__, __LINE__ ))

#define ROWS    2048
#define COLS    1024

__global__ void matvec( float *a, float *x, float *y ) {
    int tid = threadIdx.x + blockIdx.x * blockDim.x;
    if (tid < ROWS) {
        float temp = 0;
        for (int i=0; i<COLS; i++)
            temp += a[tid * COLS + i] * x[i];
        y[tid] = temp;
    }
}

int main( void ) {
    float *a, *x, *y;
    float *dev_a, *dev_x, *dev_y;
    cudaEvent_t start, stop;
    HANDLE_ERROR( cudaEventCreate( &start ) );
    HANDLE_ERROR( cudaEventCreate( &stop ) );

    // allocate the memory on the CPU
    a = (float*)malloc( ROWS * COLS * sizeof(float) );
    x = (float*)malloc( COLS * sizeof(float) );
    y = (float*)malloc( ROWS * sizeof(float) );

    HANDLE_ERROR( cudaMalloc( (void**)&dev_a, ROWS * COLS * sizeof(float) ) );
    HANDLE_ERROR( cudaMalloc( (void**)&dev_x, COLS * sizeof(float) ) );
    HANDLE_ERROR( cudaMalloc( (void**)&dev_y, ROWS * sizeof(float) ) );

    for (int i=0; i<ROWS*COLS; i++) a[i] = (float)rand() / RAND_MAX;
    for (int i=0; i<COLS; i++) x[i] = i % 7;

    HANDLE_ERROR( cudaEventRecord( start, 0 ) );
    HANDLE_ERROR( cudaMemcpy( dev_a, a, ROWS * COLS * sizeof(float), cudaMemcpyHostToDevice ) );
    HANDLE_ERROR( cudaMemcpy( dev_x, x, COLS * sizeof(float), cudaMemcpyHostToDevice ) );

    matvec<<<(ROWS+127)/128,128>>>( dev_a, dev_x, dev_y );

    HANDLE_ERROR( cudaMemcpy( y, dev_y, ROWS * sizeof(float), cudaMemcpyDeviceToHost ) );
    HANDLE_ERROR( cudaEventRecord( stop, 0 ) );
    HANDLE_ERROR( cudaEventSynchronize( stop ) );
    float elapsedTime;
    HANDLE_ERROR( cudaEventElapsedTime( &elapsedTime, start, stop ) );
    printf( "Time taken: %3.1f ms\n", elapsedTime );

    for (int r=0; r<ROWS; r++) {
        double ref = 0;
        for (int i=0; i<COLS; i++) ref += (double)a[r * COLS + i] * x[i];
        if (abs((int)(ref - y[r])) > 1) { printf( "Error at %d\n", r ); break; }
    }
    free( a ); free( x ); free( y );
    HANDLE_ERROR( cudaFree( dev_a ) );
    HANDLE_ERROR( cudaFree( dev_x ) );
    HANDLE_ERROR( cudaFree( dev_y ) );
    return 0;
}
