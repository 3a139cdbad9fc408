/* Mandelbrot, exercise 3 */
#include <stdio.h>
#define WIDTH 512
#define HEIGHT 384
#define MAXITER 256
__global__ void mandel(int *img, float x0, float y0, float dx, float dy)
{
    int px = blockIdx.x*blockDim.x+threadIdx.x, py = blockIdx.y*blockDim.y+threadIdx.y;
    if (px >= WIDTH || py >= HEIGHT) return;
    float cr = x0 + px*dx, ci = y0 + py*dy, zr = 0, zi = 0;
    int it = 0;
    while (it < MAXITER && zr*zr + zi*zi < 4.0f) { float t = zr*zr - zi*zi + cr; zi = 2*zr*zi + ci; zr = t; it++; }
    img[py*WIDTH+px] = it;
}
int main(void)
{
    int *img, *h = (int*)malloc(WIDTH*HEIGHT*sizeof(int));
    cudaMalloc((void**)&img, WIDTH*HEIGHT*sizeof(int));
    dim3 t(32,8), b(WIDTH/32, HEIGHT/8);
    mandel<<<b,t>>>(img, -2.0f, -1.2f, 3.0f/WIDTH, 2.4f/HEIGHT);
    cudaMemcpy(h, img, WIDTH*HEIGHT*sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d\n", h[1234]);
    return 0;
}
