/* complex FIR filter for the SDR receiver. gr-cuda experiments, do not use in production */
#include <cuComplex.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>

#define NTAPS 63
#define TPB 192

__constant__ cuFloatComplex d_taps[NTAPS];

__global__ void fir_ccc(const cuFloatComplex *in, cuFloatComplex *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n) return;
	cuFloatComplex acc = make_cuFloatComplex(0.f, 0.f);
	for (int k = 0; k < NTAPS; k++)
		acc = cuCaddf(acc, cuCmulf(d_taps[k], in[i + NTAPS - 1 - k]));   /* in has NTAPS-1 samples of history */
	out[i] = acc;
}

int main(int argc, char *argv[])
{
	int n = 1 << 18;
	if (argc > 1) n = strtol(argv[1], NULL, 10);
	cuFloatComplex *taps = (cuFloatComplex *)malloc(NTAPS * sizeof(cuFloatComplex));
	for (int k = 0; k < NTAPS; k++) {
		float w = 0.54f - 0.46f * cosf(2 * M_PI * k / (NTAPS - 1));
		taps[k] = make_cuFloatComplex(w * cosf(0.1f * k), w * sinf(0.1f * k));
	}
	cudaMemcpyToSymbol(d_taps, taps, NTAPS * sizeof(cuFloatComplex));

	size_t in_bytes = (n + NTAPS - 1) * sizeof(cuFloatComplex);
	cuFloatComplex *h_in = (cuFloatComplex *)malloc(in_bytes);
	FILE *f = fopen("samples.fc32", "rb");
	if (f) { fread(h_in, sizeof(cuFloatComplex), n + NTAPS - 1, f); fclose(f); }

	cuFloatComplex *d_in, *d_out;
	cudaMalloc((void **)&d_in, in_bytes);
	cudaMalloc((void **)&d_out, n * sizeof(cuFloatComplex));
	cudaMemcpy(d_in, h_in, in_bytes, cudaMemcpyHostToDevice);
	fir_ccc<<<(n + TPB - 1) / TPB, TPB>>>(d_in, d_out, n);
	cudaMemcpy(h_in, d_out, n * sizeof(cuFloatComplex), cudaMemcpyDeviceToHost);
	printf("%f %f\n", cuCrealf(h_in[0]), cuCimagf(h_in[0]));
	return 0;
}
