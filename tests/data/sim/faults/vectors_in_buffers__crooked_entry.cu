// One pointer of the table is off by four bytes.
// fault: misaligned
// like: clean/vectors_in_buffers.cu
extern "C" __global__ void k(int4* x, int4* y, int4* o) {
  __shared__ int4 s[96];
  __shared__ int4* table[3];
  int i = threadIdx.x;
  s[i] = x[i];
  s[i].x += 1;
  if (i == 0) table[0] = x, table[1] = (int4*)((int*)y + 1), table[2] = s;
  __syncthreads();
  int4* p = table[i % 3] + i;
  int4 v = *p;  // FAULT
  v.y *= 2;
  *p = v;
  o[i] = *p;
}
