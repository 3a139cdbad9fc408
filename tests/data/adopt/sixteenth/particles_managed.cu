// Simple particle system with gravity wells. My first CUDA program, be nice :)
#include <iostream>
#include <cmath>
#include <cuda_runtime.h>

struct Particle {
    float x, y, z;
    float vx, vy, vz;
    float mass;
    float life;
};

const int NUM_WELLS = 8;

__global__ void updateParticles(Particle* particles, const float4* wells, int numParticles, float dt)
{
    int stride = blockDim.x * gridDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < numParticles; i += stride) {
        Particle p = particles[i];
        float ax = 0.f, ay = 0.f, az = 0.f;
        for (int w = 0; w < NUM_WELLS; ++w) {
            float dx = wells[w].x - p.x;
            float dy = wells[w].y - p.y;
            float dz = wells[w].z - p.z;
            float r2 = dx * dx + dy * dy + dz * dz + 0.01f;
            float inv = 1.0f / sqrtf(r2);
            float f = wells[w].w * inv * inv * inv;
            ax += f * dx;
            ay += f * dy;
            az += f * dz;
        }
        p.vx += ax * dt;  p.vy += ay * dt;  p.vz += az * dt;
        p.x += p.vx * dt; p.y += p.vy * dt; p.z += p.vz * dt;
        p.life -= dt;
        particles[i] = p;
    }
}

float frand() { return (float)rand() / (float)RAND_MAX * 2.0f - 1.0f; }

int main()
{
    const int N = 1000000;
    Particle* particles;
    float4* wells;
    cudaMallocManaged(&particles, N * sizeof(Particle));
    cudaMallocManaged(&wells, NUM_WELLS * sizeof(float4));

    for (int i = 0; i < N; i++) {
        particles[i].x = frand();
        particles[i].y = frand();
        particles[i].z = frand();
        particles[i].vx = particles[i].vy = particles[i].vz = 0.0f;
        particles[i].mass = 1.0f;
        particles[i].life = 10.0f;
    }
    for (int w = 0; w < NUM_WELLS; w++)
        wells[w] = make_float4(frand(), frand(), frand(), 0.5f);

    int device = -1;
    cudaGetDevice(&device);
    cudaMemPrefetchAsync(particles, N * sizeof(Particle), device, NULL);

    int blockSize = 256;
    int numBlocks = (N + blockSize - 1) / blockSize;
    for (int step = 0; step < 100; step++)
        updateParticles<<<numBlocks, blockSize>>>(particles, wells, N, 0.01f);
    cudaDeviceSynchronize();

    std::cout << "first particle at " << particles[0].x << " " << particles[0].y << std::endl;
    cudaFree(particles);
    cudaFree(wells);
    return 0;
}
