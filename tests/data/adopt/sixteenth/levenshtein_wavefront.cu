// Edit distance of many pairs of strings: a block a pair, anti diagonals in shared memory
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>
#include <cuda_runtime.h>

#define MAXLEN 128

#define CUDA_OK(e) if ((e) != cudaSuccess) { fprintf(stderr, "cuda error\n"); exit(1); }

__global__ void editDistance(const char *a, const char *b, const int *lenA, const int *lenB, int *result)
{
    __shared__ int d0[MAXLEN + 1], d1[MAXLEN + 1], d2[MAXLEN + 1];
    int pair = blockIdx.x;
    int la = lenA[pair], lb = lenB[pair];
    const char *sa = a + pair * MAXLEN;
    const char *sb = b + pair * MAXLEN;
    int i = threadIdx.x;            // row of the table, 0 .. MAXLEN

    int *prev2 = d0, *prev = d1, *cur = d2;
    for (int diag = 0; diag <= la + lb; diag++) {
        int j = diag - i;
        if (i <= la && j >= 0 && j <= lb) {
            int v;
            if (i == 0) v = j;
            else if (j == 0) v = i;
            else {
                int sub = prev2[i - 1] + (sa[i - 1] != sb[j - 1]);
                int del = prev[i - 1] + 1;
                int ins = prev[i] + 1;
                v = min(sub, min(del, ins));
            }
            cur[i] = v;
            if (i == la && j == lb) result[pair] = v;
        }
        __syncthreads();
        int *t = prev2; prev2 = prev; prev = cur; cur = t;
    }
}

static std::string randomWord(int len) {
    std::string s;
    for (int i = 0; i < len; i++) s += 'a' + rand() % 4;
    return s;
}

int main()
{
    const int pairs = 4096;
    std::vector<char> a(pairs * MAXLEN, 0), b(pairs * MAXLEN, 0);
    std::vector<int> la(pairs), lb(pairs), res(pairs);
    for (int p = 0; p < pairs; p++) {
        la[p] = 1 + rand() % (MAXLEN - 1);
        lb[p] = 1 + rand() % (MAXLEN - 1);
        std::string s = randomWord(la[p]), t = randomWord(lb[p]);
        memcpy(&a[p * MAXLEN], s.data(), la[p]);
        memcpy(&b[p * MAXLEN], t.data(), lb[p]);
    }
    char *da, *db; int *dla, *dlb, *dres;
    CUDA_OK(cudaMalloc(&da, a.size())); CUDA_OK(cudaMalloc(&db, b.size()));
    CUDA_OK(cudaMalloc(&dla, pairs * sizeof(int))); CUDA_OK(cudaMalloc(&dlb, pairs * sizeof(int)));
    CUDA_OK(cudaMalloc(&dres, pairs * sizeof(int)));
    CUDA_OK(cudaMemcpy(da, a.data(), a.size(), cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(db, b.data(), b.size(), cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(dla, la.data(), pairs * sizeof(int), cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(dlb, lb.data(), pairs * sizeof(int), cudaMemcpyHostToDevice));
    editDistance<<<pairs, MAXLEN + 1>>>(da, db, dla, dlb, dres);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaMemcpy(res.data(), dres, pairs * sizeof(int), cudaMemcpyDeviceToHost));
    long total = 0;
    for (int r : res) total += r;
    printf("mean distance %.3f\n", (double)total / pairs);
    return 0;
}
