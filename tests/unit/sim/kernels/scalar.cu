#include <cuda_fp16.h>
extern "C" __global__ void scalar(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v, __half* __restrict__ o, int S, float scale) {
  int row = blockIdx.x * blockDim.x + threadIdx.x; int bh = blockIdx.y;
  if (row >= S) return;
  const __half* qp = q + ((size_t)bh * S + row) * 64; const __half* kp = k + (size_t)bh * S * 64; const __half* vp = v + (size_t)bh*S*64;
  float qr[64], acc[64];
  #pragma unroll
  for (int d=0; d<64; d++) { qr[d]=__half2float(qp[d])*scale; acc[d]=0.f; }
  float m=-1e30f, l=0.f;
  for (int j=0;j<S;j++) {
    float s=0.f;
    #pragma unroll
    for (int d=0; d<64; d++) s += qr[d]*__half2float(kp[j*64+d]);
    float mn=fmaxf(m,s); float c=exp2f((m-mn)*1.44269504f); float p=exp2f((s-mn)*1.44269504f);
    l = l*c+p; m=mn;
    #pragma unroll
    for (int d=0; d<64; d++) acc[d]=acc[d]*c+p*__half2float(vp[j*64+d]);
  }
  #pragma unroll
  for (int d=0; d<64; d++) o[((size_t)bh*S+row)*64+d]=__float2half(acc[d]/l);
}
