/* For CUDA and HIP: one word to one place. */
struct block { unsigned long long p[1]; unsigned int w[1]; };
extern "C" __global__ void gale_poke(struct block b) { *(unsigned int *)b.p[0] = b.w[0]; }
