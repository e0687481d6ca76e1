/* The syntax of CUDA C, HIP and OpenCL C.  Each preamble (head) defines the same small set of macros: types f32 ...
 * u64, as_TYPE for bits, LD (load), LO (of what is read once), LS (of what was complete before the kernel began) and ST
 * (store) of type V at element x of pointer i, counted in elements of T, and AT, its address.
 *
 * On CUDA only LS may use __ldg: a kernel may begin while the one before it still writes, and the cache behind __ldg
 * takes data to be constant for the whole kernel, so a line that a neighbour fetched too early would stay stale. */
#include "kernel/print/dialect.h"
#include "kernel/print/print.h"
#include <string.h>

/* clang-format off */
#define ALL(s) {s, s, s, s, s}
#define FLOATS(s) {s, s, NULL, NULL, NULL}
#define F32_F64(a, b) {a, b, NULL, NULL, NULL}
/* Signed arithmetic wraps, so it goes through unsigned. */
#define ARITHMETIC(sym) {"($0" sym "$1)", "($0" sym "$1)", "($t)(($u)$0" sym "($u)$1)", "($0" sym "$1)", NULL}

const gale__dialect_spelling gale__dialect_common[GALE__IR_COUNT] = {
    [GALE__NEG] = {"(-$0)", "(-$0)", "($t)(($u)0-($u)$0)", "(($t)0-$0)", NULL},
    [GALE__NOT] = {NULL, NULL, "(~$0)", "(~$0)", "(!$0)"},
    [GALE__ADD] = ARITHMETIC("+"),
    [GALE__SUB] = ARITHMETIC("-"),
    [GALE__MUL] = ARITHMETIC("*"),
    [GALE__AND] = {NULL, NULL, "($0&$1)", "($0&$1)", "($0&$1)"},
    [GALE__OR] = {NULL, NULL, "($0|$1)", "($0|$1)", "($0|$1)"},
    [GALE__XOR] = {NULL, NULL, "($0^$1)", "($0^$1)", "($0!=$1)"},
    [GALE__EQ] = ALL("($0==$1)"),
    [GALE__NE] = ALL("($0!=$1)"),
    [GALE__LT] = ALL("($0<$1)"),
    [GALE__LE] = ALL("($0<=$1)"),
    [GALE__GT] = ALL("($0>$1)"),
    [GALE__GE] = ALL("($0>=$1)"),
    [GALE__SELECT] = ALL("($0?$1:$2)"),
    [GALE__BITCAST] = ALL("as_$t($0)"),
    [GALE__IR_DIV] = {"($0/$1)", "($0/$1)", "($0/$1)", "($0/$1)", NULL},
    [GALE__IR_REM] = {NULL, NULL, "($0%$1)", "($0%$1)", NULL},
    [GALE__IR_MIN] = {NULL, NULL, "min($0,$1)", "min($0,$1)", NULL},
    [GALE__IR_MAX] = {NULL, NULL, "max($0,$1)", "max($0,$1)", NULL},
    [GALE__IR_SHL] = {NULL, NULL, "($t)(($u)$0<<$1)", "($0<<$1)", NULL},
    [GALE__IR_SHR] = {NULL, NULL, "($0>>$1)", "($0>>$1)", NULL},
    [GALE__IR_CONVERT] = ALL("($t)($0)"),
    [GALE__IR_F16_TO_F32] = {"from_half($0)", NULL, NULL, NULL, NULL},
    [GALE__IR_F32_TO_F16] = {NULL, NULL, NULL, "to_half($0)", NULL},
};

/* CUDA and HIP name their mathematics alike. */
#define C_MATH_ROWS                                                        \
    [GALE__ABS] = F32_F64("fabsf($0)", "fabs($0)"),                        \
    [GALE__FLOOR] = F32_F64("floorf($0)", "floor($0)"),                    \
    [GALE__CEIL] = F32_F64("ceilf($0)", "ceil($0)"),                       \
    [GALE__RINT] = F32_F64("rintf($0)", "rint($0)"),                       \
    [GALE__TRUNC] = F32_F64("truncf($0)", "trunc($0)"),                    \
    [GALE__FMA] = F32_F64("fmaf($0,$1,$2)", "fma($0,$1,$2)"),              \
    [GALE__IR_MIN] = F32_F64("fminf($0,$1)", "fmin($0,$1)"),               \
    [GALE__IR_MAX] = F32_F64("fmaxf($0,$1)", "fmax($0,$1)"),               \
    [GALE__IR_MULHI] = ALL("__umulhi($0,$1)"),                             \
    [GALE__IR_FAST_LOG] = FLOATS("__logf($0)"),                            \
    [GALE__IR_FAST_SIN] = FLOATS("__sinf($0)"),                            \
    [GALE__IR_FAST_COS] = FLOATS("__cosf($0)"),                            \
    [GALE__IR_GROUP_ID] = ALL("blockIdx.$x"),                              \
    [GALE__IR_LOCAL_ID] = ALL("threadIdx.$x"),                             \
    [GALE__IR_GROUP_COUNT] = ALL("gridDim.$x")

#define C_VECTORS {[GALE_F32] = "float", [GALE_F64] = "double", [GALE_I32] = "int", [GALE_U32] = "uint", \
    [GALE_I64] = "longlong", [GALE_U64] = "ulonglong", [GALE_I8] = "char", [GALE_U8] = "uchar",            \
    [GALE_I16] = "short", [GALE_U16] = "ushort"}

#define C_TYPES \
    "typedef float f32;typedef double f64;typedef signed char i8;typedef unsigned char u8;typedef short i16;typedef unsigned short u16;\n" \
    "typedef int i32;typedef unsigned u32;typedef long long i64;typedef unsigned long long u64;\n"

#define CUDA_CASTS \
    "static __device__ __forceinline__ f32 as_f32(u32 x){return __uint_as_float(x);}\n" \
    "static __device__ __forceinline__ f32 as_f32(i32 x){return __int_as_float(x);}\n" \
    "static __device__ __forceinline__ f64 as_f64(u64 x){return __longlong_as_double((i64)x);}\n" \
    "static __device__ __forceinline__ f64 as_f64(i64 x){return __longlong_as_double(x);}\n" \
    "static __device__ __forceinline__ u32 as_u32(f32 x){return __float_as_uint(x);}\n" \
    "static __device__ __forceinline__ u32 as_u32(i32 x){return (u32)x;}\n" \
    "static __device__ __forceinline__ i32 as_i32(f32 x){return __float_as_int(x);}\n" \
    "static __device__ __forceinline__ i32 as_i32(u32 x){return (i32)x;}\n" \
    "static __device__ __forceinline__ u64 as_u64(f64 x){return (u64)__double_as_longlong(x);}\n" \
    "static __device__ __forceinline__ u64 as_u64(i64 x){return (u64)x;}\n" \
    "static __device__ __forceinline__ i64 as_i64(f64 x){return __double_as_longlong(x);}\n" \
    "static __device__ __forceinline__ i64 as_i64(u64 x){return (i64)x;}\n"

/* NVIDIA's instructions as inline PTX, for CUDA C and for the OpenCL C of NVIDIA's driver.  fn: what a function's
 * declaration begins with. */
#define PTX_CONVERT(fn, result, name, type, form, letter) \
    fn result " " name "(f32 f){" type " r;asm(\"" form " %0,%1;\":\"=" letter "\"(r):\"f\"(f));return r;}\n"
#define PTX_OWN(fn) \
    fn "f32 min_nan(f32 a,f32 b){f32 r;asm(\"min.NaN.f32 %0,%1,%2;\":\"=f\"(r):\"f\"(a),\"f\"(b));return r;}\n" \
    fn "f32 max_nan(f32 a,f32 b){f32 r;asm(\"max.NaN.f32 %0,%1,%2;\":\"=f\"(r):\"f\"(a),\"f\"(b));return r;}\n" \
    fn "f32 fast_div(f32 a,f32 b){f32 r;asm(\"div.full.f32 %0,%1,%2;\":\"=f\"(r):\"f\"(a),\"f\"(b));return r;}\n" \
    PTX_CONVERT(fn, "i32", "sat_i8", "i16", "cvt.rzi.s8.f32", "h") PTX_CONVERT(fn, "i32", "sat_i16", "i16", "cvt.rzi.s16.f32", "h") \
    PTX_CONVERT(fn, "i32", "sat_i32", "i32", "cvt.rzi.s32.f32", "r") PTX_CONVERT(fn, "u32", "sat_u8", "u16", "cvt.rzi.u8.f32", "h") \
    PTX_CONVERT(fn, "u32", "sat_u16", "u16", "cvt.rzi.u16.f32", "h") PTX_CONVERT(fn, "u32", "sat_u32", "u32", "cvt.rzi.u32.f32", "r") \
    PTX_CONVERT(fn, "f32", "fast_exp2", "f32", "ex2.approx.ftz.f32", "f") PTX_CONVERT(fn, "f32", "fast_sqrt", "f32", "sqrt.approx.f32", "f") \
    PTX_CONVERT(fn, "f32", "fast_log2", "f32", "lg2.approx.ftz.f32", "f") \
    fn "u32 fma_halves(u32 a,u32 b,u32 c){u32 r;asm(\"{.reg .b16 l,h;.reg .b32 d;mov.b32 {l,h},%2;mov.b32 d,{l,l};fma.rn.f16x2 %0,%1,d,%3;}\"" \
    ":\"=r\"(r):\"r\"(a),\"r\"(b),\"r\"(c));return r;}\n" \
    fn "u32 join_bytes(i32 a,i32 b,u32 c){u32 r;asm(\"cvt.pack.sat.u8.s32.b32 %0,%2,%1,%3;\":\"=r\"(r):\"r\"(a),\"r\"(b),\"r\"(c));return r;}\n" \
    fn "f32 fast_quotient(f32 a,f32 b){f32 r;asm(\"rcp.approx.ftz.f32 %0,%1;\":\"=f\"(r):\"f\"(b));return a*r;}\n"
#define PTX_HALF(fn) \
    fn "f32 from_half(u32 h){f32 f;asm(\"cvt.f32.f16 %0,%1;\":\"=f\"(f):\"h\"((u16)h));return f;}\n" \
    fn "f32 from_upper(u32 w){f32 f;asm(\"{.reg .b16 l,h;mov.b32 {l,h},%1;cvt.f32.f16 %0,h;}\":\"=f\"(f):\"r\"(w));return f;}\n" \
    fn "u32 to_half(f32 f){u16 h;asm(\"cvt.rn.f16.f32 %0,%1;\":\"=h\"(h):\"f\"(f));return h;}\n"
#define PTX_LANE(fn) fn "u32 lane_id(void){u32 r;asm(\"mov.u32 %0,%%laneid;\":\"=r\"(r));return r;}\n"
#define PTX_OWN_ROWS \
    [GALE__IR_FAST_EXP] = FLOATS("fast_exp2($0*1.4426950216293335f)"), [GALE__IR_FAST_EXP2] = FLOATS("fast_exp2($0)"), \
    [GALE__IR_FAST_SQRT] = FLOATS("fast_sqrt($0)"), [GALE__IR_FAST_DIV] = FLOATS("fast_div($0,$1)"),                     \
    [GALE__IR_FAST_LOG2] = FLOATS("fast_log2($0)"), [GALE__IR_FAST_QUOTIENT] = FLOATS("fast_quotient($0,$1)"),           \
    [GALE__IR_MIN_NAN] = FLOATS("min_nan($0,$1)"), [GALE__IR_MAX_NAN] = FLOATS("max_nan($0,$1)"),                        \
    [GALE__IR_SATURATE] = {NULL, NULL, "sat_i$i($0)", "sat_u$i($0)", NULL}, [GALE__IR_FMA_HALVES] = ALL("fma_halves($0,$1,$2)"), \
    [GALE__IR_JOIN_BYTES] = ALL("join_bytes($0,$1,$2)"), [GALE__IR_LANE] = ALL("lane_id()")

/* The four ways to load a matrix: rows of 16 or halves of 8 in the register order of mma.sync, as stored
 * or transposed.  Sums of a thread: columns 0..7 in r[0..3], columns 8..15 in r[4..7], as mma.sync leaves them.
 * space: of work-group memory; a head defines shared_at, PUT_2 and copy_from beside it. */
#define PTX_MATRIX_LOAD(fn, space, type, name, row, column, turn) \
    fn "matrix " name "(const " space type "*p,u32 row){u32 l=THREAD&31u;matrix m;\n" \
    "asm volatile(\"ldmatrix.sync.aligned.m8n8.x4" turn ".shared.b16 {%0,%1,%2,%3},[%4];\":\"=r\"(m.x),\"=r\"(m.y),\"=r\"(m.z),\"=r\"(m.w)" \
    ":\"r\"(shared_at(p+(" row ")*row+(" column "))));return m;}\n"
#define PTX_SUMS_ADD(fn, type) \
    fn "void sums_add_" type "(sums*s,matrix a,matrix b){\n" \
    "asm(\"mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};\":" \
    "\"+f\"(s->r[0]),\"+f\"(s->r[1]),\"+f\"(s->r[2]),\"+f\"(s->r[3]):\"r\"(a.x),\"r\"(a.y),\"r\"(a.z),\"r\"(a.w),\"r\"(b.x),\"r\"(b.y));\n" \
    "asm(\"mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};\":" \
    "\"+f\"(s->r[4]),\"+f\"(s->r[5]),\"+f\"(s->r[6]),\"+f\"(s->r[7]):\"r\"(a.x),\"r\"(a.y),\"r\"(a.z),\"r\"(a.w),\"r\"(b.z),\"r\"(b.w));}\n"
#define PTX_PAIR(fn, type) \
    fn "u32 pair_" type "(f32 a,f32 b){u32 r;asm(\"cvt.rn." type "x2.f32 %0,%1,%2;\":\"=r\"(r):\"f\"(b),\"f\"(a));return r;}\n" \
    fn "matrix matrix_of_" type "(const sums*s){matrix m;m.x=pair_" type "(s->r[0],s->r[1]);m.y=pair_" type "(s->r[2],s->r[3]);\n" \
    "m.z=pair_" type "(s->r[4],s->r[5]);m.w=pair_" type "(s->r[6],s->r[7]);return m;}\n"
#define PTX_COPY(fn, space, global, bytes, level) \
    fn "void copy_" bytes "(" space "void*to,const " global "void*from,bool ok){asm volatile(\"cp.async." level ".shared.global [%0],[%1]," bytes ",%2;\"" \
    "::\"r\"(shared_at(to)),\"l\"(copy_from(from)),\"r\"(ok?" bytes ":0):\"memory\");}\n"
#define PTX_MATRIX(fn, space, global) \
    PTX_MATRIX_LOAD(fn, space, "u16", "matrix_a", "l&15u", "l>>4<<3", "") PTX_MATRIX_LOAD(fn, space, "u16", "matrix_a_turned", "(l&7u)+(l>>4<<3)", "l&8u", ".trans") \
    PTX_MATRIX_LOAD(fn, space, "u16", "matrix_b", "l&15u", "l>>4<<3", ".trans") PTX_MATRIX_LOAD(fn, space, "u16", "matrix_b_turned", "(l&7u)+(l>>4<<3)", "l&8u", "") \
    PTX_SUMS_ADD(fn, "f16") PTX_SUMS_ADD(fn, "bf16") PTX_PAIR(fn, "f16") PTX_PAIR(fn, "bf16") \
    fn "void sums_zero(sums*s){\n#pragma unroll\nfor(u32 i=0;i<8u;i++)s->r[i]=0.0f;}\n" \
    fn "void sums_store(const sums*s," space "f32*p,u32 row){u32 l=THREAD&31u;p+=(l>>2)*row+(l&3u)*2u;\n" \
    "PUT_2(p,s->r[0],s->r[1]);PUT_2(p+8u*row,s->r[2],s->r[3]);PUT_2(p+8,s->r[4],s->r[5]);PUT_2(p+8u*row+8,s->r[6],s->r[7]);}\n" \
    PTX_COPY(fn, space, global, "4", "ca") PTX_COPY(fn, space, global, "8", "ca") PTX_COPY(fn, space, global, "16", "cg") \
    "#define copy_commit() asm volatile(\"cp.async.commit_group;\":::\"memory\")\n" \
    "#define copy_wait(n) asm volatile(\"cp.async.wait_group \" #n \";\":::\"memory\")\n"
/* Bytes, 32 of k, lie as 16 pairs would: a register holds four of them in the order of mma.sync. */
#define PTX_MMA_BYTES(a, b, sums, columns) \
    "asm(\"mma.sync.aligned.m16n8k32.row.col.s32." a "." b ".s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};\":" sums \
    ":\"r\"(a.x),\"r\"(a.y),\"r\"(a.z),\"r\"(a.w)," columns ");\n"
#define PTX_SUMS_ADD_BYTES(fn, a, b) \
    fn "void sums_add_" a "_" b "(sums_i32*s,matrix a,matrix b){\n" \
    PTX_MMA_BYTES(a, b, "\"+r\"(s->r[0]),\"+r\"(s->r[1]),\"+r\"(s->r[2]),\"+r\"(s->r[3])", "\"r\"(b.x),\"r\"(b.y)") \
    PTX_MMA_BYTES(a, b, "\"+r\"(s->r[4]),\"+r\"(s->r[5]),\"+r\"(s->r[6]),\"+r\"(s->r[7])", "\"r\"(b.z),\"r\"(b.w)") "}\n"
#define PTX_BYTES(fn, space) \
    "typedef struct{i32 r[8];}sums_i32;\n" \
    PTX_MATRIX_LOAD(fn, space, "u8", "matrix_a_bytes", "l&15u", "l>>4<<4", "") \
    PTX_MATRIX_LOAD(fn, space, "u8", "matrix_b_bytes", "(l&7u)+(l>>4<<3)", "(l&8u)<<1", "") \
    PTX_SUMS_ADD_BYTES(fn, "s8", "s8") PTX_SUMS_ADD_BYTES(fn, "s8", "u8") PTX_SUMS_ADD_BYTES(fn, "u8", "s8") PTX_SUMS_ADD_BYTES(fn, "u8", "u8") \
    fn "void sums_zero_i32(sums_i32*s){\n#pragma unroll\nfor(u32 i=0;i<8u;i++)s->r[i]=0;}\n" \
    fn "void sums_store_i32(const sums_i32*s," space "i32*p,u32 row){u32 l=THREAD&31u;p+=(l>>2)*row+(l&3u)*2u;\n" \
    "PUT_2I(p,s->r[0],s->r[1]);PUT_2I(p+8u*row,s->r[2],s->r[3]);PUT_2I(p+8,s->r[4],s->r[5]);PUT_2I(p+8u*row+8,s->r[6],s->r[7]);}\n"
#define PTX_MATRIX_TYPES "typedef struct{u32 x,y,z,w;}matrix;typedef struct{f32 r[8];}sums;\n"

#define CUDA_FN "static __device__ __forceinline__ "
/* Groups of one launch that wait for each other: one thread counts and asks, the barriers bring the others along.  A
 * wait that can only be an error ends in a trap, after about a minute. */
#define CUDA_TOGETHER \
    CUDA_FN "void groups_arrive(u32*p){__syncthreads();if(threadIdx.x==0u)asm volatile(\"red.release.gpu.global.add.u32 [%0],1;\"::\"l\"(__cvta_generic_to_global(p)):\"memory\");}\n" \
    CUDA_FN "void groups_await(const u32*p,u32 n){if(threadIdx.x==0u){u32 v,turns=0u;do{\n" \
    "asm volatile(\"ld.acquire.gpu.global.u32 %0,[%1];\":\"=r\"(v):\"l\"(__cvta_generic_to_global(p)):\"memory\");\n" \
    "if(++turns==1u<<27)asm volatile(\"trap;\");}while(v<n);}__syncthreads();}\n"
/* OpenCL promises nothing about groups that run at the same time, so this is for launches of a single one. */
#define CL_TOGETHER \
    "#define groups_arrive(p) {barrier(CLK_LOCAL_MEM_FENCE|CLK_GLOBAL_MEM_FENCE);if(get_local_id(0)==0)atomic_inc((volatile __global u32*)(p));}\n" \
    "#define groups_await(p,n) {barrier(CLK_LOCAL_MEM_FENCE|CLK_GLOBAL_MEM_FENCE);while(atomic_or((volatile __global u32*)(p),0u)<(n));}\n"
#define CUDA_MATRIX \
    PTX_MATRIX_TYPES CUDA_FN "u32 shared_at(const void*p){return (u32)__cvta_generic_to_shared(p);}\n" \
    "#define THREAD threadIdx.x\n#define copy_from __cvta_generic_to_global\n#define PUT_2(p,a,b) (*(float2*)(p)=make_float2(a,b))\n" \
    PTX_MATRIX(CUDA_FN, "", "")

#define CUDA_BYTES "#define PUT_2I(p,a,b) (*(int2*)(p)=make_int2(a,b))\n" PTX_BYTES(CUDA_FN, "")

/* The driver's compiler keeps addresses of work-group memory in 64 bits; they fit in 32. */
#define CL_PTX_FN "static inline "
#define CL_PTX_MATRIX \
    PTX_MATRIX_TYPES CL_PTX_FN "u32 shared_at(const __local void*p){return (u32)(size_t)p;}\ntypedef float2 __attribute__((may_alias)) pair_o;\n" \
    "#define THREAD (u32)get_local_id(0)\n#define copy_from(p) (p)\n#define PUT_2(p,a,b) (*(__local pair_o*)(p)=(float2)(a,b))\n" \
    PTX_MATRIX(CL_PTX_FN, "__local ", "__global ")
#define CL_PTX_BYTES \
    "typedef int2 __attribute__((may_alias)) pair_i;\n#define PUT_2I(p,a,b) (*(__local pair_i*)(p)=(int2)(a,b))\n" \
    PTX_BYTES(CL_PTX_FN, "__local ")
#define CL_PTX_SUBGROUP \
    PTX_LANE(CL_PTX_FN) \
    CL_PTX_FN "u32 shuffle_u32(u32 x,u32 lanes){u32 r;asm volatile(\"shfl.sync.bfly.b32 %0,%1,%2,0x1f,0xffffffff;\":\"=r\"(r):\"r\"(x),\"r\"(lanes));return r;}\n" \
    CL_PTX_FN "u64 shuffle_u64(u64 x,u32 lanes){return shuffle_u32((u32)x,lanes)|(u64)shuffle_u32((u32)(x>>32),lanes)<<32;}\n" \
    "#define shuffle_i32(x,n) as_int(shuffle_u32(as_uint(x),n))\n#define shuffle_f32(x,n) as_float(shuffle_u32(as_uint(x),n))\n" \
    "#define shuffle_i64(x,n) as_long(shuffle_u64(as_ulong(x),n))\n#define shuffle_f64(x,n) as_double(shuffle_u64(as_ulong(x),n))\n" \
    "#define shuffle_bool(x,n) (shuffle_u32((x)?1u:0u,n)!=0u)\n"

/* Work-group memory of another group of the cluster. */
#define CUDA_SEND(count, args, vector, from, values) \
    "static __device__ __forceinline__ void send_" count "(const void*p,const void*g,u32 r," args "){asm volatile(\"{.reg .b32 a,b;" \
    "mapa.shared::cluster.u32 a,%0,%2;mapa.shared::cluster.u32 b,%1,%2;st.async.weak.shared::cluster.mbarrier::complete_tx::bytes" vector ".b32 [a]," from ",[b];}\"" \
    "::\"r\"(shared_at(p)),\"r\"(shared_at(g)),\"r\"(r)," values ":\"memory\");}\n"
#define CUDA_CLUSTER \
    CUDA_SEND("1", "f32 x", "", "%3", "\"f\"(x)") CUDA_SEND("2", "f32 x,f32 y", ".v2", "{%3,%4}", "\"f\"(x),\"f\"(y)") \
    CUDA_SEND("4", "f32 x,f32 y,f32 z,f32 w", ".v4", "{%3,%4,%5,%6}", "\"f\"(x),\"f\"(y),\"f\"(z),\"f\"(w)") \
    "static __device__ __forceinline__ u32*cluster_at(void*p,u32 r){u64 a;asm(\"mapa.u64 %0,%1,%2;\":\"=l\"(a):\"l\"((u64)p),\"r\"(r));return (u32*)a;}\n" \
    "#define of_cluster(x,r) (*cluster_at(&(x),r))\n" \
    "#define cluster_barrier() asm volatile(\"barrier.cluster.arrive.aligned;barrier.cluster.wait.aligned;\":::\"memory\")\n"

/* Operands of wgmma: rows of 128 bytes, groups of 16 bytes exchanged among eight rows, which are contiguous. */
#define CUDA_GROUP \
    "static __device__ __forceinline__ u64 group_part(const void*p){return (u64)(shared_at(p)>>4&0x3fffu)|1ull<<16|64ull<<32|1ull<<62;}\n" \
    "static __device__ __forceinline__ u64 group_part_half(const void*p){return (u64)(shared_at(p)>>4&0x3fffu)|1ull<<16|32ull<<32|2ull<<62;}\n" \
    "#define group_begin() asm volatile(\"wgmma.fence.sync.aligned;\":::\"memory\")\n" \
    "#define group_end() asm volatile(\"wgmma.commit_group.sync.aligned;\":::\"memory\")\n" \
    "#define group_wait(n) asm volatile(\"wgmma.wait_group.sync.aligned %0;\"::\"n\"(n):\"memory\")\n" \
    "#define group_fence() asm volatile(\"fence.proxy.async.shared::cta;\":::\"memory\")\n" \
    "#define gate_init(g,n) asm volatile(\"mbarrier.init.shared.b64 [%0],%1;fence.mbarrier_init.release.cluster;\"::\"r\"(shared_at(g)),\"r\"(n):\"memory\")\n" \
    "struct __align__(64) map{u64 v[16];};\n" \
    "#define map_ahead(m) asm volatile(\"prefetch.tensormap [%0];\"::\"l\"((u64)(m)):\"memory\")\n" \
    "#define gate_expect(g,n) asm volatile(\"{.reg .b64 t;mbarrier.arrive.expect_tx.shared.b64 t,[%0],%1;}\"::\"r\"(shared_at(g)),\"r\"(n):\"memory\")\n" \
    "#define MAP_COPY(d,c) asm volatile(\"cp.async.bulk.tensor.\" d \".shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1,{\" c \"}],[%4];\"\n" \
    "#define MAP_PLACE(p,m,k,r,g) ::\"r\"(shared_at(p)),\"l\"((u64)(m)),\"r\"(k),\"r\"(r),\"r\"(shared_at(g)),\"r\"(0u):\"memory\")\n" \
    "#define map_copy_2(p,m,k,r,g) MAP_COPY(\"2d\",\"%2,%3\") MAP_PLACE(p,m,k,r,g)\n" \
    "static __device__ __forceinline__ void map_copy_4(const void*p,const struct map*m,u32 k,u64 r,const void*g){" \
    "asm volatile(\"cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0],[%1,{%2,%3,%4,%5}],[%6],{%7,%8};\"" \
    "::\"r\"(shared_at(p)),\"l\"((u64)m),\"r\"(k&0xffffu),\"r\"((i32)(short)r),\"r\"((i32)(short)(r>>16)),\"r\"((u32)(r>>32)),\"r\"(shared_at(g)),\"h\"((u16)(k>>16&255u)),\"h\"((u16)(k>>24)):\"memory\");}\n" \
    "#define map_copy_5(p,m,k,r,g) MAP_COPY(\"5d\",\"%2,%5,%5,%5,%3\") MAP_PLACE(p,m,k,r,g)\n" \
    "#define gate_arrive(g) asm volatile(\"{.reg .b64 t;mbarrier.arrive.shared.b64 t,[%0];}\"::\"r\"(shared_at(g)):\"memory\")\n" \
    "#define gate_copies(g) asm volatile(\"cp.async.mbarrier.arrive.noinc.shared.b64 [%0];\"::\"r\"(shared_at(g)):\"memory\")\n" \
    "#define gate_wait(g,c) asm volatile(\"{.reg .pred p;W%=:mbarrier.try_wait.parity.shared.b64 p,[%0],%1;@!p bra W%=;}\"::\"r\"(shared_at(g)),\"r\"(c):\"memory\")\n" \
    "#define registers_inc(n) asm volatile(\"setmaxnreg.inc.sync.aligned.u32 %0;\"::\"n\"(n))\n" \
    "#define registers_dec(n) asm volatile(\"setmaxnreg.dec.sync.aligned.u32 %0;\"::\"n\"(n))\n"

/* AMD's matrix units, one instruction for 16 x 16 x 16.  MFMA, 64 threads: a thread has four neighbours along k of one row
 * or column, and four rows of one column of the sums.  WMMA, 32 threads: all of k, the same in both halves of the
 * subgroup, and every second row.  One spelling serves both: N along k from FIRST on, sums R in the rows that ROW gives. */
#define HIP_MATRIX_LOAD(name, place) \
    CUDA_FN "matrix " name "(const u16*p,u32 row){u32 l=THREAD,side=l&15u;matrix m;\n#pragma unroll\nfor(u32 i=0;i<N;i++)m[i]=(i16)p[" place "];return m;}\n"
#define HIP_MATRIX \
    "#define THREAD (threadIdx.x%LANES)\n" \
    "#if defined(__GFX9__)||__AMDGCN_WAVEFRONT_SIZE==64\n#define LANES 64u\n#define N 4\n#define R 4\n#define FIRST (l/16u*4u)\n#define ROW(i) (l/16u*4u+i)\n" \
    "#define MMA_F16(a,b,c) __builtin_amdgcn_mfma_f32_16x16x16f16(a,b,c,0,0,0)\n#define MMA_BF16(a,b,c) __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a,b,c,0,0,0)\n" \
    "#else\n#define LANES 32u\n#define N 16\n#define R 8\n#define FIRST 0u\n#define ROW(i) (2u*i+l/16u)\n" \
    "#define MMA_F16(a,b,c) __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a,b,c)\n#define MMA_BF16(a,b,c) __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a,b,c)\n#endif\n" \
    "typedef i16 matrix __attribute__((ext_vector_type(N)));typedef _Float16 matrix_f16 __attribute__((ext_vector_type(N)));\n" \
    "typedef f32 sums_of __attribute__((ext_vector_type(R)));typedef struct{sums_of r;}sums;\n" \
    HIP_MATRIX_LOAD("matrix_a", "side*row+FIRST+i") HIP_MATRIX_LOAD("matrix_a_turned", "(FIRST+i)*row+side") \
    HIP_MATRIX_LOAD("matrix_b", "(FIRST+i)*row+side") HIP_MATRIX_LOAD("matrix_b_turned", "side*row+FIRST+i") \
    CUDA_FN "void sums_zero(sums*s){s->r=(sums_of)(0.0f);}\n" \
    CUDA_FN "void sums_add_f16(sums*s,matrix a,matrix b){s->r=MMA_F16(__builtin_bit_cast(matrix_f16,a),__builtin_bit_cast(matrix_f16,b),s->r);}\n" \
    CUDA_FN "void sums_add_bf16(sums*s,matrix a,matrix b){s->r=MMA_BF16(a,b,s->r);}\n" \
    CUDA_FN "void sums_store(const sums*s,f32*p,u32 row){u32 l=THREAD;\n#pragma unroll\nfor(u32 i=0;i<R;i++)p[ROW(i)*row+l%16u]=s->r[i];}\n"

#define CL_WIDE_TYPES(type) "typedef " type "2 __attribute__((may_alias)) " type "2_o;typedef " type "4 __attribute__((may_alias)) " type "4_o;\n"
#define CL_WIDE \
    CL_WIDE_TYPES("float") CL_WIDE_TYPES("int") CL_WIDE_TYPES("uint") CL_WIDE_TYPES("short") CL_WIDE_TYPES("ushort") \
    CL_WIDE_TYPES("char") CL_WIDE_TYPES("uchar") CL_WIDE_TYPES("long") CL_WIDE_TYPES("ulong") \
    "typedef f32 __attribute__((may_alias)) f32_o;typedef i32 __attribute__((may_alias)) i32_o;typedef u32 __attribute__((may_alias)) u32_o;\n" \
    "typedef u16 __attribute__((may_alias)) u16_o;typedef u8 __attribute__((may_alias)) u8_o;\n"

#define C_MEMORY \
    "#define LD(V,T,i,x) (*(const V*)((const T*)P.p[i]+(x)))\n" \
    "#define ST(V,T,i,x) (*(V*)((T*)P.p[i]+(x)))\n" \
    "#define AT(T,i,x) ((const T*)P.p[i]+(x))\n"

#define CL_TYPES \
    "#pragma OPENCL FP_CONTRACT OFF\n" \
    "typedef float f32;typedef char i8;typedef uchar u8;typedef short i16;typedef ushort u16;\n" \
    "typedef int i32;typedef uint u32;typedef long i64;typedef ulong u64;\n" \
    "#define as_f32 as_float\n#define as_f64 as_double\n#define as_i32 as_int\n#define as_u32 as_uint\n#define as_i64 as_long\n#define as_u64 as_ulong\n"

#define CL_MEMORY \
    "#define LD(V,T,i,x) (*(const __global V*)((const __global T*)p##i+(x)))\n#define LS LD\n#define LO LD\n" \
    "#define ST(V,T,i,x) (*(__global V*)((__global T*)p##i+(x)))\n" \
    "#define AT(T,i,x) ((const __global T*)p##i+(x))\n"

/* What both dialects of OpenCL C share. */
#define CL_FORMS \
    .head = CL_TYPES CL_MEMORY, .head_f64 = "#pragma OPENCL EXTENSION cl_khr_fp64:enable\ntypedef double f64;\n", .head_wide = CL_WIDE,       \
    .head_together = CL_TOGETHER,                                                                                                          \
    .struct_pointers = "ulong offset", .kernel = "__kernel __attribute__((reqd_work_group_size($0,$1,$2))) void ",                         \
    .pointer = "__global uchar*b$i", .pointer_readonly = "__global const uchar*restrict b$i",                                              \
    .pointer_base = "p$i=b$i+P.offset[$i];", .ready = "", .shared = "__local __attribute__((aligned(16))) ", .shared_launch = "",           \
    .shared_type = "__local $0_o*", .shared_vector = "(*(__local $0_o*)&$1)", \
    .barriers = {"barrier(CLK_LOCAL_MEM_FENCE);", "barrier(CLK_LOCAL_MEM_FENCE|CLK_GLOBAL_MEM_FENCE);"}, .atomic_add = "atomic_add", .make_vector = "($0)",              \
    .vector = {[GALE_F32] = "float", [GALE_F64] = "double", [GALE_I32] = "int", [GALE_U32] = "uint", [GALE_I64] = "long",                  \
        [GALE_U64] = "ulong", [GALE_I8] = "char", [GALE_U8] = "uchar", [GALE_I16] = "short", [GALE_U16] = "ushort"}
#define CL_ROWS \
    [GALE__ABS] = FLOATS("fabs($0)"), [GALE__FLOOR] = FLOATS("floor($0)"), [GALE__CEIL] = FLOATS("ceil($0)"),        \
    [GALE__RINT] = FLOATS("rint($0)"), [GALE__TRUNC] = FLOATS("trunc($0)"), [GALE__SQRT] = FLOATS("sqrt($0)"),       \
    [GALE__FMA] = FLOATS("fma($0,$1,$2)"),                                                                           \
    [GALE__IR_MIN] = FLOATS("fmin($0,$1)"), [GALE__IR_MAX] = FLOATS("fmax($0,$1)"),                                  \
    [GALE__IR_MULHI] = ALL("mul_hi($0,$1)"), [GALE__IR_FAST_LOG] = FLOATS("native_log($0)"),                         \
    [GALE__IR_FAST_SIN] = FLOATS("native_sin($0)"), [GALE__IR_FAST_COS] = FLOATS("native_cos($0)"),                  \
    [GALE__IR_GROUP_ID] = ALL("(u32)get_group_id($i)"), [GALE__IR_LOCAL_ID] = ALL("(u32)get_local_id($i)"),          \
    [GALE__IR_GROUP_COUNT] = ALL("(u32)get_num_groups($i)")

const gale__dialect_table gale__dialects[] = {
    [GALE__DIALECT_CUDA] = {
        .name = "cuda",
        .head = C_TYPES CUDA_CASTS C_MEMORY
            "#if __CUDA_ARCH__>=900\n#define WAIT_FOR_LAUNCH asm volatile(\"griddepcontrol.wait;griddepcontrol.launch_dependents;\":::\"memory\");\n"
            "#else\n#define WAIT_FOR_LAUNCH\n#endif\n"
            "#define LS(V,T,i,x) __ldg((const V*)((const T*)P.p[i]+x))\n"
            "#define LO(V,T,i,x) __ldcs((const V*)((const T*)P.p[i]+(x)))\n",
        .head_f64 = "",
        .head_f16 = PTX_HALF(CUDA_FN), .head_own = PTX_OWN(CUDA_FN), .head_wide = "", .copies = true, .head_matrix = CUDA_MATRIX CUDA_GROUP CUDA_CLUSTER,
        .head_bytes = CUDA_BYTES, .head_together = CUDA_TOGETHER,
        .head_subgroup = PTX_LANE(CUDA_FN),
        .struct_pointers = "u64 p",
        .kernel = "extern \"C\" __global__ void __launch_bounds__($i$3) ",
        .pointer = "", .pointer_readonly = "", .pointer_base = "", .ready = "WAIT_FOR_LAUNCH\n",
        .shared = "__shared__ __align__(16) ", .shared_launch = "extern __shared__ __align__(1024) u8 gale_shared[];\n",
        .shared_type = "$0*", .shared_vector = "(*($0*)&$1)", .barriers = {"__syncthreads();", "__syncthreads();"}, .barrier_subgroup = "__syncwarp();", .atomic_add = "atomicAdd",
        .make_vector = "make_$0", .clamp = "__saturatef", .join_byte = "__byte_perm", .vector = C_VECTORS,
        .rows = {
            C_MATH_ROWS,
            [GALE__SQRT] = F32_F64("__fsqrt_rn($0)", "sqrt($0)"),
            PTX_OWN_ROWS,
            [GALE__IR_SHUFFLE_XOR] = ALL("__shfl_xor_sync(0xffffffffu,$0,$i)"),
        },
    },
    [GALE__DIALECT_HIP] = {
        .name = "hip",
        .head = "#pragma clang fp contract(off)\n" C_TYPES CUDA_CASTS C_MEMORY "#define LO LD\n#define LS LD\n",
        .head_f64 = "",
        .head_f16 = "static __device__ __forceinline__ f32 from_half(u32 h){return (f32)__builtin_bit_cast(_Float16,(u16)h);}\n"
                    "#define from_upper(w) from_half((w)>>16)\n"
                    "static __device__ __forceinline__ u32 to_half(f32 f){return __builtin_bit_cast(u16,(_Float16)f);}\n",
        .head_subgroup = "", .head_own = "", .head_wide = "", .head_matrix = HIP_MATRIX, .head_bytes = "", .head_together = "",
        .struct_pointers = "u64 p",
        .kernel = "extern \"C\" __global__ void __launch_bounds__($i) ",
        .pointer = "", .pointer_readonly = "", .pointer_base = "", .ready = "",
        .shared = "__shared__ __align__(16) ", .shared_launch = "extern __shared__ __align__(16) u8 gale_shared[];\n",
        .shared_type = "$0*", .shared_vector = "(*($0*)&$1)", .barriers = {"__syncthreads();", "__syncthreads();"}, .barrier_subgroup = "__syncthreads();", .atomic_add = "atomicAdd",
        .make_vector = "make_$0", .vector = C_VECTORS,
        .rows = {
            C_MATH_ROWS,
            [GALE__SQRT] = F32_F64("sqrtf($0)", "sqrt($0)"),
            [GALE__IR_FAST_EXP] = FLOATS("__expf($0)"), [GALE__IR_FAST_EXP2] = FLOATS("exp2f($0)"),
            [GALE__IR_FAST_SQRT] = FLOATS("__fsqrt_rn($0)"), [GALE__IR_FAST_DIV] = FLOATS("__fdividef($0,$1)"),
            [GALE__IR_FAST_LOG2] = FLOATS("__log2f($0)"), [GALE__IR_FAST_QUOTIENT] = FLOATS("__fdividef($0,$1)"),
            [GALE__IR_LANE] = ALL("(u32)__lane_id()"),
            [GALE__IR_SHUFFLE_XOR] = ALL("__shfl_xor($0,$i)"),
        },
    },
    [GALE__DIALECT_OPENCL] = {
        .name = "opencl",
        .head_f16 = "static inline f32 from_half(u32 h){ushort s=(ushort)h;return vload_half(0,(const half*)&s);}\n"
                    "#define from_upper(w) from_half((w)>>16)\n"
                    "static inline u32 to_half(f32 f){ushort s;vstore_half_rte(f,0,(half*)&s);return s;}\n",
        .head_own = "", .head_matrix = "", .head_bytes = "",
        .head_subgroup = "#pragma OPENCL EXTENSION cl_khr_subgroups:enable\n#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle:enable\n",
        .barrier_subgroup = "barrier(CLK_LOCAL_MEM_FENCE);",
        CL_FORMS,
        .rows = {
            CL_ROWS,
            [GALE__IR_FAST_EXP] = FLOATS("native_exp($0)"), [GALE__IR_FAST_EXP2] = FLOATS("native_exp2($0)"),
            [GALE__IR_FAST_SQRT] = FLOATS("native_sqrt($0)"), [GALE__IR_FAST_DIV] = FLOATS("native_divide($0,$1)"),
            [GALE__IR_FAST_LOG2] = FLOATS("native_log2($0)"), [GALE__IR_FAST_QUOTIENT] = FLOATS("native_divide($0,$1)"),
            [GALE__IR_LANE] = ALL("get_sub_group_local_id()"),
            [GALE__IR_SHUFFLE_XOR] = ALL("sub_group_shuffle_xor($0,$i)"),
        },
    },
    [GALE__DIALECT_OPENCL_PTX] = {
        .name = "opencl+ptx",
        .head_f16 = PTX_HALF(CL_PTX_FN), .head_own = PTX_OWN(CL_PTX_FN), .copies = true, .head_matrix = CL_PTX_MATRIX, .head_bytes = CL_PTX_BYTES,
        .head_subgroup = CL_PTX_SUBGROUP,
        .barrier_subgroup = "asm volatile(\"bar.warp.sync 0xffffffff;\":::\"memory\");",
        CL_FORMS,
        .rows = {
            CL_ROWS,
            PTX_OWN_ROWS,
            [GALE__IR_SHUFFLE_XOR] = ALL("shuffle_$t($0,$iu)"),
        },
    },
};
/* clang-format on */

static int index_of(const char *name)
{
    for (int i = 0; name && i < GALE__DIALECT_COUNT; i++)
        if (!strcmp(gale__dialects[i].name, name)) return i;
    return -1;
}

gale_status gale__dialect_find(const char *name, gale__dialect *out)
{
    int i = index_of(name);
    if (i >= 0) return *out = (gale__dialect)i, GALE_OK;
    return gale__fail(GALE_UNSUPPORTED, "unknown kernel dialect \"%s\" (kernel/print/dialect.c)", name ? name : "");
}

bool gale__dialect_copies(const char *name)
{
    int i = index_of(name);
    return i >= 0 && gale__dialects[i].copies;
}
