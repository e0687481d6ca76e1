/* One word to one place. */
struct block { ulong offset[1]; uint w[1]; };
__kernel void gale_poke(__global uchar *p, struct block b) { *(__global uint *)(p + b.offset[0]) = b.w[0]; }
