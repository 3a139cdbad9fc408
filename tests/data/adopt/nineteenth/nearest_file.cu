// For every query point find the closest reference point. Reads points.txt if there is one.
#include <fstream>
#include <iostream>
#include <limits>
#include <sstream>
#include <vector>
#include <cuda_runtime.h>

struct Point { float x, y, z; };

#define gpuErrchk(ans) do { cudaError_t c = (ans); if (c != cudaSuccess) { std::cerr << cudaGetErrorString(c) << " @" << __LINE__ << std::endl; std::exit(-1); } } while (false)

__global__ void nearest(const Point* queries, const Point* refs, int* idx, float* dist, int nq, int nr)
{
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= nq) return;
    Point p = queries[q];
    float best = 1e30f;
    int besti = -1;
    for (int r = 0; r < nr; ++r) {
        float dx = p.x - refs[r].x;
        float dy = p.y - refs[r].y;
        float dz = p.z - refs[r].z;
        float d = sqrt(dx * dx + dy * dy + dz * dz);
        if (d < best) { best = d; besti = r; }
    }
    idx[q] = besti;
    dist[q] = best;
}

static std::vector<Point> load(const std::string& name, size_t fallback)
{
    std::vector<Point> pts;
    std::ifstream in(name);
    std::string line;
    while (std::getline(in, line)) {
        std::istringstream ss(line);
        Point p;
        if (ss >> p.x >> p.y >> p.z) pts.push_back(p);
    }
    if (pts.empty()) {
        pts.resize(fallback);
        for (auto& p : pts) p = { rand() / float(RAND_MAX), rand() / float(RAND_MAX), rand() / float(RAND_MAX) };
    }
    return pts;
}

int main(int argc, char** argv)
{
    std::vector<Point> refs = load("points.txt", 2048);
    std::vector<Point> queries = load(argc > 1 ? argv[1] : "queries.txt", 8192);
    const int nq = queries.size(), nr = refs.size();

    Point *d_q, *d_r; int* d_i; float* d_d;
    gpuErrchk(cudaMalloc(&d_q, nq * sizeof(Point)));
    gpuErrchk(cudaMalloc(&d_r, nr * sizeof(Point)));
    gpuErrchk(cudaMalloc(&d_i, nq * sizeof(int)));
    gpuErrchk(cudaMalloc(&d_d, nq * sizeof(float)));
    gpuErrchk(cudaMemcpy(d_q, queries.data(), nq * sizeof(Point), cudaMemcpyHostToDevice));
    gpuErrchk(cudaMemcpy(d_r, refs.data(), nr * sizeof(Point), cudaMemcpyHostToDevice));

    nearest<<<(nq + 127) / 128, 128>>>(d_q, d_r, d_i, d_d, nq, nr);
    gpuErrchk(cudaPeekAtLastError());
    std::vector<int> idx(nq);
    std::vector<float> dist(nq);
    gpuErrchk(cudaMemcpy(idx.data(), d_i, nq * sizeof(int), cudaMemcpyDeviceToHost));
    gpuErrchk(cudaMemcpy(dist.data(), d_d, nq * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 10 && i < nq; ++i)
        std::cout << i << " -> " << idx[i] << " (" << dist[i] << ")\n";
    cudaFree(d_q); cudaFree(d_r); cudaFree(d_i); cudaFree(d_d);
}
