// Direct n-body, with a small vector class.
#include <cstdio>
#include <cstdlib>
#include <vector>

class Vec3 {
public:
    float x, y, z;
    __host__ __device__ Vec3() : x(0), y(0), z(0) {}
    __host__ __device__ Vec3(float x_, float y_, float z_) : x(x_), y(y_), z(z_) {}
    __host__ __device__ Vec3 operator+(const Vec3& o) const { return Vec3(x + o.x, y + o.y, z + o.z); }
    __host__ __device__ Vec3 operator-(const Vec3& o) const { return Vec3(x - o.x, y - o.y, z - o.z); }
    __host__ __device__ Vec3 operator*(float s) const { return Vec3(x * s, y * s, z * s); }
    __host__ __device__ float dot(const Vec3& o) const { return x * o.x + y * o.y + z * o.z; }
};

const float SOFTENING = 1e-3f;

__global__ void accelerations(const Vec3* pos, const float* mass, Vec3* acc, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Vec3 a;
    Vec3 me = pos[i];
    for (int j = 0; j < n; j++) {
        Vec3 d = pos[j] - me;
        float inv = rsqrtf(d.dot(d) + SOFTENING);
        a = a + d * (mass[j] * inv * inv * inv);
    }
    acc[i] = a;
}

__global__ void integrate(Vec3* pos, Vec3* vel, const Vec3* acc, float dt, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        vel[i] = vel[i] + acc[i] * dt;
        pos[i] = pos[i] + vel[i] * dt;
    }
}

int main(int argc, char** argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 4096;
    const int steps = 10;
    std::vector<Vec3> pos(n), vel(n);
    std::vector<float> mass(n, 1.0f / n);
    for (int i = 0; i < n; i++) pos[i] = Vec3(rand() / (float)RAND_MAX, rand() / (float)RAND_MAX, rand() / (float)RAND_MAX);
    Vec3 *d_pos, *d_vel, *d_acc;
    float* d_mass;
    cudaMalloc(&d_pos, n * sizeof(Vec3));
    cudaMalloc(&d_vel, n * sizeof(Vec3));
    cudaMalloc(&d_acc, n * sizeof(Vec3));
    cudaMalloc(&d_mass, n * sizeof(float));
    cudaMemcpy(d_pos, pos.data(), n * sizeof(Vec3), cudaMemcpyHostToDevice);
    cudaMemcpy(d_vel, vel.data(), n * sizeof(Vec3), cudaMemcpyHostToDevice);
    cudaMemcpy(d_mass, mass.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    int threads = 128, blocks = (n + threads - 1) / threads;
    for (int s = 0; s < steps; s++) {
        accelerations<<<blocks, threads>>>(d_pos, d_mass, d_acc, n);
        integrate<<<blocks, threads>>>(d_pos, d_vel, d_acc, 0.01f, n);
    }
    cudaMemcpy(pos.data(), d_pos, n * sizeof(Vec3), cudaMemcpyDeviceToHost);
    printf("%f %f %f\n", pos[0].x, pos[0].y, pos[0].z);
    cudaFree(d_pos); cudaFree(d_vel); cudaFree(d_acc); cudaFree(d_mass);
}
