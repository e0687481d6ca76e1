/* Programs and kernels: built from OpenCL C or from a binary, cached on disk, launched with gale's parameter block or,
 * for users' own kernels, with one argument per buffer and word. */
#include "device/binary_cache.h"
#include "device/opencl/opencl.h"
#include <stdio.h>
#include <string.h>

#define MAX_BUFFERS 64 /* of a user's kernel */
#define MAX_BLOCK 1024 /* bytes of parameters that every OpenCL device takes */

typedef struct kernel_impl {
    cl_kernel kernel;
    gale__mutex lock; /* arguments live in the kernel object until the launch */
} kernel_impl;

static gale_status build_failed(gale__cl_device *d, cl_program program, cl_int error)
{
    size_t size = 0;
    d->cl->clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    char *log = gale__calloc(1, size + 1);
    if (!log) return GALE_NO_MEMORY;
    d->cl->clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, size, log, NULL);
    gale_status status = gale__cl_fail(error, "clBuildProgram");
    if (error == CL_BUILD_PROGRAM_FAILURE) status = gale__fail(GALE_BUILD, "OpenCL C compilation failed:\n%s", log);
    gale__free(log);
    return status;
}

/* Takes the program over. */
static gale_status build_program(gale__cl_device *d, cl_program program, const char *options, cl_program *out)
{
    uint64_t begin = gale__time_ns();
    cl_int e = d->cl->clBuildProgram(program, 1, &d->id, options, NULL, NULL);
    gale__log(GALE__DEBUG, "opencl: a program was built in %.1f ms", (double)(gale__time_ns() - begin) / 1e6);
    if (e == CL_SUCCESS) {
        *out = program;
        return GALE_OK;
    }
    gale_status status = build_failed(d, program, e);
    d->cl->clReleaseProgram(program);
    return status;
}

static gale_status build_binary(gale__cl_device *d, const void *data, size_t size, const char *options, cl_program *out)
{
    const unsigned char *bytes = data;
    cl_int e = CL_SUCCESS, verdict = CL_SUCCESS;
    cl_program program = d->cl->clCreateProgramWithBinary(d->context, 1, &d->id, &size, &bytes, &verdict, &e);
    if (!program || verdict != CL_SUCCESS) {
        if (program) d->cl->clReleaseProgram(program);
        return gale__cl_fail(e == CL_SUCCESS ? verdict : e, "clCreateProgramWithBinary of %zu bytes", size);
    }
    return build_program(d, program, options, out);
}

static gale_status build_text(
    gale__cl_device *d, const char *head, const char *text, size_t size, const char *options, cl_program *out)
{
    cl_int e = CL_SUCCESS;
    const char *texts[] = {head, text};
    size_t sizes[] = {strlen(head), size}, first = !*head; /* not every driver need like an empty text */
    cl_program program =
        d->cl->clCreateProgramWithSource(d->context, (cl_uint)(2 - first), texts + first, sizes + first, &e);
    if (!program) return gale__cl_fail(e, "clCreateProgramWithSource");
    return build_program(d, program, options, out);
}

/* Stores the compiled program in the cache.  Errors are ignored: they only cost time later. */
static void cache_binary(gale__cl_device *d, cl_program program, const char *key)
{
    size_t size = 0;
    if (d->cl->clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL) != CL_SUCCESS || !size)
        return;
    unsigned char *bytes = gale__alloc(size);
    if (bytes && d->cl->clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, NULL) == CL_SUCCESS)
        gale__binary_cache_put(key, bytes, size);
    gale__free(bytes);
}

/* Source with #include depends on other files, so it is not cached. */
static gale_status build_cached(
    gale_device *device, const char *text, size_t size, const char *options, cl_program *out)
{
    gale__cl_device *d = gale__cl_of(device);
    char key[GALE__BINARY_KEY];
    if (memmem(text, size, "#include", 8)) return build_text(d, "", text, size, options, out);
    gale__binary_cache_key_for(text, size, device->info.name, device->info.driver, options, key);
    gale__bytes hit = {0};
    if (gale__binary_cache_get(key, &hit)) {
        gale_status status = build_binary(d, hit.data, hit.size, options, out);
        gale__bytes_finish(&hit);
        if (status == GALE_OK) return GALE_OK;
        gale__log(GALE__INFO, "opencl: a cached binary was rejected and is compiled again: %s", gale_error());
    }
    GALE_TRY(build_text(d, "", text, size, options, out));
    cache_binary(d, *out, key);
    return GALE_OK;
}

#define POCL "Portable Computing Language"
static bool is_driver(const gale_device *device, const char *name)
{
    return !strncmp(device->info.driver, name, strlen(name));
}

/* PoCL reads 18,000 lines of declarations for each program, which takes as long as three kernels.  The guard of that
 * file leaves them out, and these are the functions that our kernels call (kernel/print/dialect.c).  Where that fails,
 * the whole file is read for this program and those after it.  Of other versions than 3 it is not known which names
 * their functions have. */
/* clang-format off */
#define DECLARE(type, attributes, name, arguments) type " __attribute__((overloadable" attributes ")) " name "(" arguments ");\n"
#define FLOATS(name, f, d) DECLARE("float", ",const", name, f) "#ifdef cl_khr_fp64\n" DECLARE("double", ",const", name, d) "#endif\n"
#define ONE(name) FLOATS(name, "float", "double")
#define TWO(name) FLOATS(name, "float,float", "double,double")
#define OF(type, name) DECLARE(type, ",const", name, type "," type)
#define INTEGERS(name) OF("int", name) OF("uint", name) OF("long", name) OF("ulong", name)
#define NATIVE(name) DECLARE("float", ",const", "native_" name, "float")
#define INDEX(name) DECLARE("size_t", ",const", "get_" name, "uint")
#define ATOMIC(type, name, at, more) DECLARE(type, "", "atomic_" name, "volatile " at " " type "*" more)
static const char declared[] =
    ONE("fabs") ONE("floor") ONE("ceil") ONE("rint") ONE("trunc") ONE("sqrt") TWO("fmin") TWO("fmax")
    FLOATS("fma", "float,float,float", "double,double,double") INTEGERS("min") INTEGERS("max") INTEGERS("mul_hi")
    NATIVE("exp") NATIVE("exp2") NATIVE("sqrt") NATIVE("log") NATIVE("log2") NATIVE("sin") NATIVE("cos")
    OF("float", "native_divide") INDEX("local_id") INDEX("group_id") INDEX("num_groups") INDEX("global_id")
    ATOMIC("int", "add", "__global", ",int") ATOMIC("uint", "add", "__global", ",uint") ATOMIC("int", "add", "__local", ",int")
    ATOMIC("uint", "add", "__local", ",uint") ATOMIC("uint", "inc", "__global", "") ATOMIC("uint", "or", "__global", ",uint")
    DECLARE("void", ",convergent", "barrier", "cl_mem_fence_flags")
    DECLARE("float", ",pure", "vload_half", "size_t,const __private half*")
    DECLARE("void", "", "vstore_half_rte", "float,size_t,__private half*");
/* clang-format on */

/* PoCL keeps what it compiles itself.  Asked for a binary it compiles every kernel once more, for any work-group size,
 * and gale's kernels never run in that form. */
static gale_status build_source(gale_device *device, const gale__source *source, const char *options, cl_program *out)
{
    gale__cl_device *d = gale__cl_of(device);
    if (!source->ours || !is_driver(device, POCL))
        return build_cached(device, source->data, source->size, options, out);
    bool lean = !d->whole && is_driver(device, POCL " 3.");
    char fewer[640];
    snprintf(fewer, sizeof fewer, "%s -D_OPENCL_H_", options);
    if (lean && build_text(d, declared, source->data, source->size, fewer, out) == GALE_OK) return GALE_OK;
    if (lean) gale__log(GALE__INFO, "opencl: programs are built with all of PoCL's declarations: %s", gale_error());
    d->whole = true;
    return build_text(d, "", source->data, source->size, options, out);
}

gale_status gale__cl_build(gale_device *device, const gale__source *source, gale_module *module)
{
    gale__cl_device *d = gale__cl_of(device);
    char options[512];
    const char *exact =
        source->ours && device->info.caps.exact_division ? " -cl-fp32-correctly-rounded-divide-sqrt" : "";
    if (snprintf(options, sizeof options, "%s%s", source->options ? source->options : "", exact) >= (int)sizeof options)
        return gale__fail(GALE_LIMIT, "OpenCL compiler options are longer than %zu characters", sizeof options - 1);
    cl_program program = NULL;
    if (source->code == GALE__CODE_TEXT) GALE_TRY(build_source(device, source, options, &program));
    else if (source->code == GALE__CODE_BINARY)
        GALE_TRY(build_binary(d, source->data, source->size, options, &program));
    else return gale__fail(GALE_UNSUPPORTED, "opencl builds kernels from OpenCL C or from a binary of its own driver");
    module->impl = program;
    return GALE_OK;
}

void gale__cl_unbuild(gale_module *module)
{
    if (module->impl) gale__cl_of(module->device)->cl->clReleaseProgram(module->impl);
    module->impl = NULL;
}

static gale_status no_kernel(gale__cl_device *d, cl_program program, const char *entry, cl_int error)
{
    char names[1024] = "";
    if (error != CL_INVALID_KERNEL_NAME) return gale__cl_fail(error, "clCreateKernel of %s", entry);
    d->cl->clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, sizeof names - 1, names, NULL);
    return gale__fail(GALE_NOT_FOUND, "kernel %s not found in the OpenCL program (it has: %s)", entry, names);
}

gale_status gale__cl_kernel(gale_module *module, gale_kernel *kernel)
{
    gale__cl_device *d = gale__cl_of(module->device);
    kernel_impl *k = gale__calloc(1, sizeof *k);
    if (!k) return GALE_NO_MEMORY;
    cl_int e = CL_SUCCESS;
    k->kernel = d->cl->clCreateKernel(module->impl, kernel->entry, &e);
    if (!k->kernel) {
        gale__free(k);
        return no_kernel(d, module->impl, kernel->entry, e);
    }
    /* NVIDIA's driver says 256 even of a kernel that it has compiled for more: one with a size of its own is not asked.
     */
    size_t most = 0, made_for[3] = {0}, wanted = (size_t)kernel->group[0] * kernel->group[1] * kernel->group[2];
    d->cl->clGetKernelWorkGroupInfo(
        k->kernel, d->id, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof made_for, made_for, NULL);
    e = d->cl->clGetKernelWorkGroupInfo(k->kernel, d->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, NULL);
    if (e == CL_SUCCESS && !made_for[0] && wanted > most) {
        d->cl->clReleaseKernel(k->kernel);
        gale__free(k);
        return gale__fail(GALE_LIMIT, "kernel %s: a work-group of %zu exceeds the %zu that this device allows",
            kernel->entry, wanted, most);
    }
    cl_uint arguments = 0;
    e = d->cl->clGetKernelInfo(k->kernel, CL_KERNEL_NUM_ARGS, sizeof arguments, &arguments, NULL);
    if (e == CL_SUCCESS) kernel->arguments = (int)arguments;
    gale__mutex_init(&k->lock);
    kernel->impl = k;
    return GALE_OK;
}

void gale__cl_kernel_destroy(gale_kernel *kernel)
{
    kernel_impl *k = kernel->impl;
    if (!k) return;
    gale__cl_of(kernel->module->device)->cl->clReleaseKernel(k->kernel);
    gale__mutex_finish(&k->lock);
    gale__free(k);
    kernel->impl = NULL;
}

static gale_status bad_argument(cl_int e, const char *entry, int i)
{
    return gale__cl_fail(e, "kernel %s: argument %d", entry, i);
}

/* gale's own kernels: the blocks of memory, then offsets and words in one struct. */
static gale_status set_block(const gale__cl *cl, cl_kernel kernel, const char *entry, const gale__launch *l)
{
    uint64_t block[MAX_BLOCK / 8];
    size_t pointers = 8u * (size_t)l->n_refs, words = 4u * (size_t)l->n_words, size = pointers + words;
    if (l->n_refs) size = (size + 7) & ~(size_t)7; /* the struct is padded to its ulongs */
    if (size > sizeof block)
        return gale__fail(GALE_LIMIT, "kernel %s: %zu bytes of parameters, at most %zu", entry, size, sizeof block);
    memset(block, 0, size);
    for (int i = 0; i < l->n_refs; i++) {
        cl_mem mem = l->refs[i].mem ? l->refs[i].mem->handle : NULL;
        cl_int e = cl->clSetKernelArg(kernel, (cl_uint)i, sizeof mem, &mem);
        if (e != CL_SUCCESS) return bad_argument(e, entry, i);
        block[i] = l->refs[i].offset;
    }
    if (!size) return GALE_OK;
    memcpy((char *)block + pointers, l->words, words);
    cl_int e = cl->clSetKernelArg(kernel, (cl_uint)l->n_refs, size, block);
    return e == CL_SUCCESS ? GALE_OK : bad_argument(e, entry, l->n_refs);
}

/* A buffer of a user's kernel: the block itself, or a part of it that begins where the buffer does.  The part must live
 * until the launch is queued, since a kernel does not hold its arguments. */
static gale_status set_buffer(
    gale__cl_device *d, cl_kernel kernel, const char *entry, int i, gale__ref ref, cl_mem *part)
{
    cl_mem mem = ref.mem ? ref.mem->handle : NULL;
    cl_int e = CL_SUCCESS;
    if (mem && ref.offset) {
        cl_buffer_region region = {ref.offset, ref.mem->size - ref.offset};
        mem = *part = d->cl->clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &e);
        if (!mem)
            return gale__cl_fail(e, "kernel %s: buffer %d at offset %zu (this device requires multiples of %zu)", entry,
                i, (size_t)ref.offset, d->sub_align);
    }
    e = d->cl->clSetKernelArg(kernel, (cl_uint)i, sizeof mem, &mem);
    return e == CL_SUCCESS ? GALE_OK : bad_argument(e, entry, i);
}

static gale_status set_plain(
    gale__cl_device *d, cl_kernel kernel, const char *entry, const gale__launch *l, cl_mem *parts)
{
    if (l->n_refs > MAX_BUFFERS)
        return gale__fail(GALE_LIMIT, "kernel %s: %d buffers, at most %d", entry, l->n_refs, MAX_BUFFERS);
    for (int i = 0; i < l->n_refs; i++) GALE_TRY(set_buffer(d, kernel, entry, i, l->refs[i], &parts[i]));
    for (int i = 0; i < l->n_words; i++) {
        cl_int e = d->cl->clSetKernelArg(kernel, (cl_uint)(l->n_refs + i), sizeof l->words[i], &l->words[i]);
        if (e != CL_SUCCESS) return bad_argument(e, entry, l->n_refs + i);
    }
    return GALE_OK;
}

gale_status gale__cl_launch(gale_stream *stream, gale_kernel *kernel, const gale__launch *launch)
{
    gale__cl_device *d = gale__cl_of(stream->device);
    kernel_impl *k = kernel->impl;
    cl_mem parts[MAX_BUFFERS] = {NULL};
    size_t global[3], local[3];
    for (int i = 0; i < 3; i++) {
        local[i] = launch->group[i];
        global[i] = (size_t)launch->groups[i] * launch->group[i];
    }
    gale__mutex_lock(&k->lock);
    gale_status status = kernel->module->source.ours ? set_block(d->cl, k->kernel, kernel->entry, launch)
                                                     : set_plain(d, k->kernel, kernel->entry, launch, parts);
    if (status == GALE_OK) {
        cl_int e = d->cl->clEnqueueNDRangeKernel(stream->impl, k->kernel, 3, NULL, global, local, 0, NULL, NULL);
        if (e != CL_SUCCESS) status = gale__cl_fail(e, "clEnqueueNDRangeKernel of %s", kernel->entry);
    }
    gale__mutex_unlock(&k->lock);
    for (int i = 0; i < MAX_BUFFERS && i < launch->n_refs; i++)
        if (parts[i]) d->cl->clReleaseMemObject(parts[i]);
    return status;
}
