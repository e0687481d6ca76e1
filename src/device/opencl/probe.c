/* Finds and describes the OpenCL devices of all platforms.  Devices are numbered across platforms, GPUs and
 * accelerators before processors, so that index 0 is the preferred one. */
#include "device/opencl/opencl.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define MAX_PLATFORMS 32
#define MAX_DEVICES 64
/* Queries of vendors and of later versions, asked for and simply refused where unknown. */
#define DEVICE_ARCH_MAJOR_NV 0x4000
#define DEVICE_ARCH_MINOR_NV 0x4001
#define DEVICE_WARP_SIZE_NV 0x4003
#define DEVICE_PCI_BUS_NV 0x4008
#define DEVICE_PCI_SLOT_NV 0x4009
#define DEVICE_WAVEFRONT_AMD 0x4043
#define DEVICE_FREE_MEMORY_AMD 0x4039
#define DEVICE_UUID 0x106A

static bool query(const gale__cl *cl, cl_device_id id, cl_device_info what, void *out, size_t size)
{
    return cl->clGetDeviceInfo(id, what, size, out, NULL) == CL_SUCCESS;
}

static uint64_t number(const gale__cl *cl, cl_device_id id, cl_device_info what, size_t size)
{
    uint64_t v = 0; /* little-endian hosts only, as everywhere in gale */
    return query(cl, id, what, &v, size) ? v : 0;
}

static void text(const gale__cl *cl, cl_device_id id, cl_device_info what, char *out, size_t size)
{
    out[0] = 0;
    if (!query(cl, id, what, out, size)) out[0] = 0;
    out[size - 1] = 0;
}

/* 10 * major + minor of "OpenCL 1.2 ...". */
static int version_of(const gale__cl *cl, cl_device_id id)
{
    char t[256];
    int major = 0, minor = 0;
    text(cl, id, CL_DEVICE_VERSION, t, sizeof t);
    return sscanf(t, "OpenCL %d.%d", &major, &minor) == 2 ? 10 * major + minor : 0;
}

/* Says in `why` what is wrong with a device that cannot serve. */
static bool usable(const gale__cl *cl, cl_device_id id, gale__probe *why)
{
    char name[128];
    text(cl, id, CL_DEVICE_NAME, name, sizeof name);
    int version = version_of(cl, id);
    if (version < 12) {
        snprintf(why->reason, sizeof why->reason, "%s: version too old: OpenCL %d.%d; 1.2 is needed", name,
            version / 10, version % 10);
        snprintf(why->remedy, sizeof why->remedy, "install a newer OpenCL driver");
        return false;
    }
    if (!number(cl, id, CL_DEVICE_AVAILABLE, sizeof(cl_bool)) ||
        !number(cl, id, CL_DEVICE_COMPILER_AVAILABLE, sizeof(cl_bool))) {
        snprintf(why->reason, sizeof why->reason,
            "%s: the driver reports that the device or its compiler is not available", name);
        snprintf(why->remedy, sizeof why->remedy, "reinstall the OpenCL driver of this device");
        return false;
    }
    if (number(cl, id, CL_DEVICE_ADDRESS_BITS, sizeof(cl_uint)) < 64 ||
        !number(cl, id, CL_DEVICE_ENDIAN_LITTLE, sizeof(cl_bool))) {
        snprintf(why->reason, sizeof why->reason, "%s: not a 64-bit little-endian device", name);
        why->remedy[0] = 0;
        return false;
    }
    return true;
}

static bool is_cpu(const gale__cl *cl, cl_device_id id)
{
    return number(cl, id, CL_DEVICE_TYPE, sizeof(cl_device_type)) & CL_DEVICE_TYPE_CPU;
}

gale_status gale__cl_find(const gale__cl *cl, gale__probe *why, gale__cl_found **out, int *count)
{
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint n_platforms = 0;
    int n = 0;
    gale__cl_found *found = gale__calloc(2 * MAX_DEVICES, sizeof *found); /* the second half: processors */
    if (!found) return GALE_NO_MEMORY;
    if (cl->clGetPlatformIDs(MAX_PLATFORMS, platforms, &n_platforms) != CL_SUCCESS) n_platforms = 0;
    if (n_platforms > MAX_PLATFORMS) n_platforms = MAX_PLATFORMS;
    if (!n_platforms) {
        snprintf(why->reason, sizeof why->reason, "no OpenCL platform: the loader is installed, but no driver");
        snprintf(why->remedy, sizeof why->remedy,
            "install the driver of your device: nvidia-opencl-icd, intel-opencl-icd, mesa-opencl-icd, or "
            "pocl-opencl-icd for the CPU");
    } else {
        snprintf(why->reason, sizeof why->reason, "no OpenCL device on %u platform%s", n_platforms,
            n_platforms == 1 ? "" : "s");
        snprintf(why->remedy, sizeof why->remedy,
            "check that this user may open the device (group render or video), or install pocl-opencl-icd");
    }
    int cpus = 0;
    for (cl_uint p = 0; p < n_platforms; p++) {
        cl_device_id ids[MAX_DEVICES];
        cl_uint n_ids = 0;
        if (cl->clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MAX_DEVICES, ids, &n_ids) != CL_SUCCESS) continue;
        for (cl_uint i = 0; i < n_ids && i < MAX_DEVICES; i++) {
            if (n + cpus == MAX_DEVICES || !usable(cl, ids[i], why)) continue;
            gale__cl_found *slot = is_cpu(cl, ids[i]) ? &found[MAX_DEVICES + cpus++] : &found[n++];
            *slot = (gale__cl_found){platforms[p], ids[i]};
        }
    }
    memmove(found + n, found + MAX_DEVICES, (size_t)cpus * sizeof *found);
    *out = found;
    *count = n + cpus;
    return GALE_OK;
}

static bool has_extension(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = strstr(list, name); at; at = strstr(at + n, name))
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
    return false;
}

/* NVIDIA's compiler takes inline PTX, and so everything that CUDA C is given on the same card but wgmma, which needs
 * more work-group memory than OpenCL has there. */
static void describe_nvidia(const gale__cl *cl, cl_device_id id, gale_device_caps *caps)
{
    cl_uint major = 0, minor = 0;
    if (!query(cl, id, DEVICE_ARCH_MAJOR_NV, &major, sizeof major) ||
        !query(cl, id, DEVICE_ARCH_MINOR_NV, &minor, sizeof minor) || major < 8)
        return;
    caps->arch = 10 * major + minor;
    caps->dialect = "opencl+ptx";
    caps->subgroup_ops = caps->corners = caps->own_math = caps->bf16 = true;
    caps->shared_most_bytes = caps->shared_bytes;
    gale__caps_add_mma(caps);
}

static void describe_caps(const gale__cl *cl, cl_device_id id, gale_device_caps *caps)
{
    static char none[1];
    size_t size = 0;
    cl->clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS, 0, NULL, &size);
    char *list = gale__calloc(1, size + 1);
    const char *ext = list && query(cl, id, CL_DEVICE_EXTENSIONS, list, size) ? list : none;
    caps->memory_bytes = number(cl, id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong));
    cl_ulong free_kb[2] = {0, 0};
    if (query(cl, id, DEVICE_FREE_MEMORY_AMD, free_kb, sizeof free_kb)) caps->memory_free_bytes = free_kb[0] << 10;
    caps->alloc_max_bytes = number(cl, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(cl_ulong));
    caps->compute_units = (uint32_t)number(cl, id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint));
    caps->clock_mhz = (uint32_t)number(cl, id, CL_DEVICE_MAX_CLOCK_FREQUENCY, sizeof(cl_uint));
    caps->group_max = (uint32_t)number(cl, id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t));
    caps->shared_bytes = (uint32_t)number(cl, id, CL_DEVICE_LOCAL_MEM_SIZE, sizeof(cl_ulong));
    caps->subgroup = (uint32_t)number(cl, id, DEVICE_WARP_SIZE_NV, sizeof(cl_uint));
    if (!caps->subgroup) caps->subgroup = (uint32_t)number(cl, id, DEVICE_WAVEFRONT_AMD, sizeof(cl_uint));
    if (!caps->subgroup) caps->subgroup = 1;
    caps->f16 = has_extension(ext, "cl_khr_fp16");
    caps->f64 = number(cl, id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof(cl_device_fp_config)) != 0;
    uint64_t single = number(cl, id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof(cl_device_fp_config));
    caps->exact_division = single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
    caps->denormals = single & CL_FP_DENORM;
    caps->i64 = caps->storage8 = caps->storage16 = caps->memory_model = caps->holds_data = true;
    caps->dialect = "opencl";
    caps->subgroup_ops =
        caps->subgroup > 1 && has_extension(ext, "cl_khr_subgroups") && has_extension(ext, "cl_khr_subgroup_shuffle");
    caps->unified_memory = number(cl, id, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof(cl_bool)) != 0;
    caps->software = is_cpu(cl, id);
    caps->kernels_per_module = caps->software ? 64 : 4;
    if (has_extension(ext, "cl_nv_device_attribute_query")) describe_nvidia(cl, id, caps);
    gale__free(list);
}

/* A name that stays: UUID, else place on the bus, else which driver and which of its devices. */
static void describe_id(const gale__cl *cl, const gale__cl_found *f, int index, char *out, size_t size)
{
    uint8_t uuid[16] = {0};
    if (query(cl, f->device, DEVICE_UUID, uuid, sizeof uuid)) {
        size_t used = (size_t)snprintf(out, size, "uuid-");
        for (int i = 0; i < 16 && used + 2 < size; i++)
            used += (size_t)snprintf(out + used, size - used, "%02x", uuid[i]);
        return;
    }
    cl_uint bus = 0, slot = 0;
    if (query(cl, f->device, DEVICE_PCI_BUS_NV, &bus, sizeof bus) &&
        query(cl, f->device, DEVICE_PCI_SLOT_NV, &slot, sizeof slot)) {
        snprintf(out, size, "pci-%02x:%02x", bus, slot);
        return;
    }
    char name[48];
    text(cl, f->device, CL_DEVICE_NAME, name, sizeof name);
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '-';
    snprintf(out, size, "%s-%d", name[0] ? name : "device", index);
}

static void describe(const gale__cl *cl, const gale__cl_found *f, int index, gale_device_info *info)
{
    char platform[64] = "", version[48];
    info->backend = "opencl";
    info->index = index;
    text(cl, f->device, CL_DEVICE_NAME, info->name, sizeof info->name);
    text(cl, f->device, CL_DEVICE_VENDOR, info->vendor, sizeof info->vendor);
    text(cl, f->device, CL_DRIVER_VERSION, version, sizeof version);
    cl->clGetPlatformInfo(f->platform, CL_PLATFORM_NAME, sizeof platform, platform, NULL);
    platform[sizeof platform - 1] = 0;
    int opencl = version_of(cl, f->device);
    snprintf(
        info->driver, sizeof info->driver, "%.40s %.30s (OpenCL %d.%d)", platform, version, opencl / 10, opencl % 10);
    describe_id(cl, f, index, info->id, sizeof info->id);
    describe_caps(cl, f->device, &info->caps);
}

gale_status gale__cl_probe(gale__probe *out)
{
    const gale__cl *cl = NULL;
    const char *soname = "";
    gale_status status = gale__cl_load(&cl, &soname);
    if (status == GALE_NO_MEMORY) return status;
    if (status != GALE_OK) {
        snprintf(out->reason, sizeof out->reason, "%s", gale_error());
        snprintf(out->remedy, sizeof out->remedy,
            "install ocl-icd-libopencl1 and the OpenCL driver of your device (pocl-opencl-icd for the CPU)");
        return GALE_OK;
    }
    snprintf(out->library, sizeof out->library, "%s", soname);
    gale__cl_found *found = NULL;
    int count = 0;
    GALE_TRY(gale__cl_find(cl, out, &found, &count));
    if (count) {
        out->devices = gale__calloc((size_t)count, sizeof *out->devices);
        if (out->devices) {
            for (int i = 0; i < count; i++) describe(cl, &found[i], i, &out->devices[i]);
            out->count = count;
            out->reason[0] = out->remedy[0] = 0;
        } else status = GALE_NO_MEMORY;
    }
    gale__free(found);
    return status;
}
