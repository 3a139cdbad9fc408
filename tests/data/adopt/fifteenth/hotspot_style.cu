#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <assert.h>

#define STR_SIZE 256

/* maximum power density possible (say 300W for a 10mm x 10mm chip)	*/
#define MAX_PD	(3.0e6)
/* required precision in degrees	*/
#define PRECISION	0.001
#define SPEC_HEAT_SI 1.75e6
#define K_SI 100
/* capacitance fitting factor	*/
#define FACTOR_CHIP	0.5

#ifndef BLOCK_SIZE
#define BLOCK_SIZE 16
#endif

/* chip parameters	*/
float t_chip = 0.0005;
float chip_height = 0.016;
float chip_width = 0.016;
/* ambient temperature, assuming no package at all	*/
float amb_temp = 80.0;

void fatal(const char *s)
{
	fprintf(stderr, "error: %s\n", s);
	exit(1);
}

void readinput(float *vect, int grid_rows, int grid_cols, char *file)
{
	int i,j;
	FILE *fp;
	char str[STR_SIZE];
	float val;

	if( (fp  = fopen(file, "r" )) ==0 )
		printf( "The file was not opened\n" );

	for (i=0; i <= grid_rows-1; i++)
	 for (j=0; j <= grid_cols-1; j++)
	 {
		fgets(str, STR_SIZE, fp);
		if (feof(fp))
			fatal("not enough lines in file");
		if ((sscanf(str, "%f", &val) != 1))
			fatal("invalid file format");
		vect[i*grid_cols+j] = val;
	}
	fclose(fp);
}

__global__ void calculate_temp(const float *power, const float *temp_src, float *temp_dst,
                               int grid_cols, int grid_rows,
                               float Cap, float Rx, float Ry, float Rz, float step, float amb_temp)
{
	__shared__ float temp_on_cuda[BLOCK_SIZE][BLOCK_SIZE];

	int bx = blockIdx.x, by = blockIdx.y;
	int tx = threadIdx.x, ty = threadIdx.y;
	float step_div_Cap = step / Cap;
	float Rx_1 = 1 / Rx, Ry_1 = 1 / Ry, Rz_1 = 1 / Rz;

	int small_block_rows = BLOCK_SIZE - 2;
	int small_block_cols = BLOCK_SIZE - 2;
	int yidx = small_block_rows * by - 1 + ty;
	int xidx = small_block_cols * bx - 1 + tx;

	// clamp: the border of the chip is its own neighbour
	int yc = yidx < 0 ? 0 : (yidx > grid_rows - 1 ? grid_rows - 1 : yidx);
	int xc = xidx < 0 ? 0 : (xidx > grid_cols - 1 ? grid_cols - 1 : xidx);
	int index = grid_cols * yc + xc;

	temp_on_cuda[ty][tx] = temp_src[index];
	__syncthreads();

	if (tx >= 1 && tx <= BLOCK_SIZE - 2 && ty >= 1 && ty <= BLOCK_SIZE - 2 &&
	    yidx < grid_rows && xidx < grid_cols) {
		float t = temp_on_cuda[ty][tx];
		temp_dst[index] = t + step_div_Cap * (power[index] +
			(temp_on_cuda[ty + 1][tx] + temp_on_cuda[ty - 1][tx] - 2.0f * t) * Ry_1 +
			(temp_on_cuda[ty][tx + 1] + temp_on_cuda[ty][tx - 1] - 2.0f * t) * Rx_1 +
			(amb_temp - t) * Rz_1);
	}
}

int compute_tran_temp(float *MatrixPower, float *MatrixTemp[2], int col, int row, int total_iterations)
{
	float grid_height = chip_height / row;
	float grid_width = chip_width / col;

	float Cap = FACTOR_CHIP * SPEC_HEAT_SI * t_chip * grid_width * grid_height;
	float Rx = grid_width / (2.0 * K_SI * t_chip * grid_height);
	float Ry = grid_height / (2.0 * K_SI * t_chip * grid_width);
	float Rz = t_chip / (K_SI * grid_height * grid_width);

	float max_slope = MAX_PD / (FACTOR_CHIP * t_chip * SPEC_HEAT_SI);
	float step = PRECISION / max_slope;

	dim3 dimBlock(BLOCK_SIZE, BLOCK_SIZE);
	int small = BLOCK_SIZE - 2;
	dim3 dimGrid(col / small + (col % small ? 1 : 0), row / small + (row % small ? 1 : 0));

	int src = 1, dst = 0;
	for (int t = 0; t < total_iterations; t++) {
		int temp = src;
		src = dst;
		dst = temp;
		calculate_temp<<<dimGrid, dimBlock>>>(MatrixPower, MatrixTemp[src], MatrixTemp[dst],
			col, row, Cap, Rx, Ry, Rz, step, amb_temp);
	}
	return dst;
}

void usage(int argc, char **argv)
{
	fprintf(stderr, "Usage: %s <grid_rows/grid_cols> <sim_time> <temp_file> <power_file>\n", argv[0]);
	exit(1);
}

int main(int argc, char** argv)
{
	int size;
	int grid_rows,grid_cols;
	float *FilesavingTemp,*FilesavingPower,*MatrixOut;
	int total_iterations = 60;

	if (argc != 5)
		usage(argc, argv);
	if((grid_rows = atoi(argv[1]))<=0||
	   (grid_cols = atoi(argv[1]))<=0||
	   (total_iterations = atoi(argv[2]))<=0)
		usage(argc, argv);

	size=grid_rows*grid_cols;
	FilesavingTemp = (float *) malloc(size*sizeof(float));
	FilesavingPower = (float *) malloc(size*sizeof(float));
	MatrixOut = (float *) calloc (size, sizeof(float));
	if( !FilesavingPower || !FilesavingTemp || !MatrixOut)
		fatal("unable to allocate memory");

	readinput(FilesavingTemp, grid_rows, grid_cols, argv[3]);
	readinput(FilesavingPower, grid_rows, grid_cols, argv[4]);

	float *MatrixTemp[2], *MatrixPower;
	cudaMalloc((void**)&MatrixTemp[0], sizeof(float)*size);
	cudaMalloc((void**)&MatrixTemp[1], sizeof(float)*size);
	cudaMemcpy(MatrixTemp[0], FilesavingTemp, sizeof(float)*size, cudaMemcpyHostToDevice);
	cudaMalloc((void**)&MatrixPower, sizeof(float)*size);
	cudaMemcpy(MatrixPower, FilesavingPower, sizeof(float)*size, cudaMemcpyHostToDevice);

	printf("Start computing the transient temperature\n");
	int ret = compute_tran_temp(MatrixPower,MatrixTemp,grid_cols,grid_rows, total_iterations);
	printf("Ending simulation\n");
	cudaMemcpy(MatrixOut, MatrixTemp[ret], sizeof(float)*size, cudaMemcpyDeviceToHost);

	cudaFree(MatrixPower);
	cudaFree(MatrixTemp[0]);
	cudaFree(MatrixTemp[1]);
	free(MatrixOut);
	return 0;
}
