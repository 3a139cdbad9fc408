// Batched tridiagonal solve (Thomas algorithm), double precision, interleaved systems
#include <vector>
#include <iostream>
#include <iomanip>
#include <cassert>
#include <cuda_runtime.h>
using namespace std;

class TridiagSolver {
public:
    TridiagSolver(int n, int nsys) : n_(n), nsys_(nsys) {
        size_t sz = sizeof(double) * n_ * nsys_;
        cudaMalloc(&a_, sz); cudaMalloc(&b_, sz); cudaMalloc(&c_, sz); cudaMalloc(&d_, sz);
        cudaMalloc(&cp_, sz);
        cudaMalloc(&x_, sz);
    }
    ~TridiagSolver() { cudaFree(a_); cudaFree(b_); cudaFree(c_); cudaFree(d_); cudaFree(cp_); cudaFree(x_); }
    void upload(const vector<double>& a, const vector<double>& b, const vector<double>& c, const vector<double>& d);
    void solve();
    void download(vector<double>& x);
private:
    int n_, nsys_;
    double *a_, *b_, *c_, *d_, *cp_, *x_;
};

// thread = system; element i of system s lies at [i * nsys + s]
__global__ void thomas(const double* a, const double* b, const double* c, const double* d,
                       double* cp, double* x, int n, int nsys)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= nsys) return;
    cp[s] = c[s] / b[s];
    x[s] = d[s] / b[s];
    for (int i = 1; i < n; ++i) {
        int k = i * nsys + s;
        double m = 1.0 / (b[k] - a[k] * cp[k - nsys]);
        cp[k] = c[k] * m;
        x[k] = (d[k] - a[k] * x[k - nsys]) * m;
    }
    for (int i = n - 2; i >= 0; --i) {
        int k = i * nsys + s;
        x[k] -= cp[k] * x[k + nsys];
    }
}

void TridiagSolver::upload(const vector<double>& a, const vector<double>& b, const vector<double>& c, const vector<double>& d)
{
    size_t sz = sizeof(double) * n_ * nsys_;
    assert(a.size() == size_t(n_) * nsys_);
    cudaMemcpy(a_, a.data(), sz, cudaMemcpyHostToDevice);
    cudaMemcpy(b_, b.data(), sz, cudaMemcpyHostToDevice);
    cudaMemcpy(c_, c.data(), sz, cudaMemcpyHostToDevice);
    cudaMemcpy(d_, d.data(), sz, cudaMemcpyHostToDevice);
}
void TridiagSolver::solve()
{
    const int threads = 64;
    thomas<<<(nsys_ + threads - 1) / threads, threads>>>(a_, b_, c_, d_, cp_, x_, n_, nsys_);
    cudaError_t err = cudaGetLastError();
    if (err != cudaSuccess) { cerr << cudaGetErrorString(err) << endl; exit(1); }
}
void TridiagSolver::download(vector<double>& x)
{
    x.resize(size_t(n_) * nsys_);
    cudaMemcpy(x.data(), x_, sizeof(double) * n_ * nsys_, cudaMemcpyDeviceToHost);
}

int main()
{
    const int n = 128, nsys = 8192;
    vector<double> a(n * nsys, -1.0), b(n * nsys, 4.0), c(n * nsys, -1.0), d(n * nsys), x;
    for (int i = 0; i < n * nsys; ++i) d[i] = 1.0 + 0.5 * (i % 7);
    TridiagSolver solver(n, nsys);
    solver.upload(a, b, c, d);
    solver.solve();
    solver.download(x);
    // residual of system 0
    double worst = 0;
    for (int i = 1; i < n - 1; ++i) {
        double r = a[i * nsys] * x[(i - 1) * nsys] + b[i * nsys] * x[i * nsys] + c[i * nsys] * x[(i + 1) * nsys] - d[i * nsys];
        worst = max(worst, fabs(r));
    }
    cout << scientific << setprecision(3) << "residual " << worst << endl;
    return worst < 1e-10 ? 0 : 1;
}
