#include <iostream>
#include <utility>
#include <cuda_runtime.h>

typedef double real;

struct Model {
    real Du, Dv, feed, kill, dt;
    int  n;
};

__constant__ Model model;

__device__ inline int wrap(int i) { return i < 0 ? i + model.n : (i >= model.n ? i - model.n : i); }
__device__ inline int at(int i, int j) { return wrap(j) * model.n + wrap(i); }

__device__ real laplacian(const real* f, int i, int j) {
    return f[at(i - 1, j)] + f[at(i + 1, j)] + f[at(i, j - 1)] + f[at(i, j + 1)] - 4.0 * f[at(i, j)];
}

__global__ void step(const real* u, const real* v, real* u_next, real* v_next) {
    const int i = blockDim.x * blockIdx.x + threadIdx.x;
    const int j = blockDim.y * blockIdx.y + threadIdx.y;
    if (i >= model.n || j >= model.n) return;
    const int c = j * model.n + i;
    const real uvv = u[c] * v[c] * v[c];
    u_next[c] = u[c] + model.dt * (model.Du * laplacian(u, i, j) - uvv + model.feed * (1.0 - u[c]));
    v_next[c] = v[c] + model.dt * (model.Dv * laplacian(v, i, j) + uvv - (model.feed + model.kill) * v[c]);
}

class Simulation {
public:
    explicit Simulation(const Model& m) : m_(m), bytes_(sizeof(real) * m.n * m.n) {
        cudaMalloc(&u_, bytes_);
        cudaMalloc(&v_, bytes_);
        cudaMalloc(&un_, bytes_);
        cudaMalloc(&vn_, bytes_);
        cudaMemcpyToSymbol(model, &m_, sizeof(Model));
    }
    ~Simulation() { cudaFree(u_); cudaFree(v_); cudaFree(un_); cudaFree(vn_); }
    void set(const real* u, const real* v) {
        cudaMemcpy(u_, u, bytes_, cudaMemcpyHostToDevice);
        cudaMemcpy(v_, v, bytes_, cudaMemcpyHostToDevice);
    }
    void run(int steps) {
        const dim3 block(16, 16);
        const dim3 grid((m_.n + block.x - 1) / block.x, (m_.n + block.y - 1) / block.y);
        for (int s = 0; s < steps; ++s) {
            step<<<grid, block>>>(u_, v_, un_, vn_);
            std::swap(u_, un_);
            std::swap(v_, vn_);
        }
    }
    void get(real* u, real* v) const {
        cudaMemcpy(u, u_, bytes_, cudaMemcpyDeviceToHost);
        cudaMemcpy(v, v_, bytes_, cudaMemcpyDeviceToHost);
    }
private:
    Model m_;
    size_t bytes_;
    real *u_, *v_, *un_, *vn_;
};

int main() {
    Model m;
    m.Du = 0.16; m.Dv = 0.08; m.feed = 0.035; m.kill = 0.065; m.dt = 1.0;
    m.n = 512;
    real* u = new real[m.n * m.n];
    real* v = new real[m.n * m.n];
    for (int i = 0; i < m.n * m.n; ++i) { u[i] = 1.0; v[i] = 0.0; }
    for (int j = 240; j < 272; ++j)
        for (int i = 240; i < 272; ++i) { u[j * m.n + i] = 0.5; v[j * m.n + i] = 0.25; }
    Simulation sim(m);
    sim.set(u, v);
    sim.run(1000);
    sim.get(u, v);
    std::cout << u[0] << " " << v[256 * m.n + 256] << "\n";
    delete[] u; delete[] v;
}
