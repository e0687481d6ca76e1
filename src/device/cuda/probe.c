/* Finds the CUDA and HIP devices, and explains why there are none: no card, no kernel driver, no user-space library, a
 * damaged or old one, no permission. */
#include "device/cuda/driver.h"
#include "base/access.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int attribute(const gale__cu_api *api, int device, gale__cu_attribute id)
{
    int value = 0;
    return api->device_attribute(&value, api->maker->attributes[id], device) ? 0 : value;
}

static uint32_t attribute_u32(const gale__cu_api *api, int device, gale__cu_attribute id)
{
    int value = attribute(api, device, id);
    return value > 0 ? (uint32_t)value : 0;
}

/* ---- what a device can do ---- */

static void fill_caps(const gale__cu_api *api, int device, gale_device_caps *caps)
{
    size_t memory = 0;
    if (api->device_memory(&memory, device)) memory = 0;
    bool cuda = !api->maker->hip;
    int arch = 10 * attribute(api, device, GALE__CU_ARCH_MAJOR) + attribute(api, device, GALE__CU_ARCH_MINOR);
    *caps = (gale_device_caps){
        .memory_bytes = memory,
        .alloc_max_bytes = memory,
        .compute_units = attribute_u32(api, device, GALE__CU_MULTIPROCESSORS),
        .clock_mhz = attribute_u32(api, device, GALE__CU_CLOCK_KHZ) / 1000,
        .subgroup = attribute_u32(api, device, GALE__CU_WARP_SIZE),
        .group_max = attribute_u32(api, device, GALE__CU_MAX_THREADS_PER_BLOCK),
        .groups_max = {attribute_u32(api, device, GALE__CU_GRID_X), attribute_u32(api, device, GALE__CU_GRID_Y),
            attribute_u32(api, device, GALE__CU_GRID_Z)},
        /* What a kernel may declare; more is there for kernels that ask at launch. */
        .shared_bytes = attribute_u32(api, device, GALE__CU_SHARED_PER_BLOCK),
        .arch = arch > 0 ? (uint32_t)arch : 0,
        .f16 = !cuda || arch >= 53,
        .bf16 = cuda && arch >= 80,
        .corners = cuda && arch >= 80,
        .own_math = cuda,
        .exact_division = true,
        .f64 = true,
        .i64 = true,
        .subgroup_ops = true,
        .storage8 = true,
        .storage16 = true,
        .unified_memory = attribute(api, device, GALE__CU_INTEGRATED) > 0,
        .capture = api->has_capture,
        .denormals = true,
        .memory_model = true,
        .holds_data = true,
        .host_mapped = cuda,
        .dialect = cuda ? "cuda" : "hip",
        .kernels_per_module = 1, /* the cache on disk then finds each of them, whatever it was built with */
    };
    if (cuda && api->function_set) caps->shared_most_bytes = attribute_u32(api, device, GALE__CU_SHARED_OPTIN);
    /* Orders of memory among groups are those of 7.0 on. */
    if (cuda && arch >= 70 && api->launch_together && attribute(api, device, GALE__CU_COOPERATIVE) > 0)
        caps->groups_together = caps->compute_units;
    if (!caps->subgroup) caps->subgroup = 32;
    if (!caps->group_max) caps->group_max = 1024;
    if (cuda && arch >= 80) gale__caps_add_mma(caps);
    /* MFMA of gfx94x and WMMA of gfx11; others are not told apart by these numbers, or lay matrices out differently. */
    if (!cuda && (arch == 94 || (arch >= 110 && arch < 120))) gale__caps_add_matrix(caps);
    /* Of 8.6 and 8.9 bf16 is less than nine times as fast as f32; later cards were not tried. */
    caps->matrix_f32 = cuda && (arch == 80 || arch == 90);
    caps->begins_early = cuda && arch >= 90;
    caps->matrix_groups = cuda && arch == 90; /* sm_90a: later cards have others */
    caps->matrix_maps = caps->matrix_groups && api->map_encode && api->map_encode_window;
}

/* "580.65.06" out of the second word pair of /proc/driver/nvidia/version; "" when it is not told. */
static void kernel_driver(char *text, size_t size)
{
    gale__bytes file = {0};
    text[0] = 0;
    if (gale__file_read("/proc/driver/nvidia/version", 65536, &file) != GALE_OK) return;
    for (char *at = file.data, *save = NULL, *word; (word = strtok_r(at, " \n", &save)); at = NULL) {
        if (strspn(word, "0123456789.") != strlen(word) || !strchr(word, '.')) continue;
        snprintf(text, size, "%s", word);
        break;
    }
    gale__bytes_finish(&file);
}

static void driver_words(const gale__cu_api *api, char *text, size_t size)
{
    const gale__cu_maker *m = api->maker;
    char kernel[48] = "";
    if (!m->hip) kernel_driver(kernel, sizeof kernel);
    snprintf(text, size, "%s %d.%d%s%s", m->label, api->version / m->major_unit,
        api->version % m->major_unit / m->minor_unit, kernel[0] ? ", driver " : "", kernel);
}

static void fill_id(const gale__cu_api *api, int device, char *text, size_t size)
{
    uint8_t uuid[16] = {0};
    if (!api->device_uuid || api->device_uuid(uuid, device)) {
        if (api->device_bus_id(text, (int)size, device)) snprintf(text, size, "%d", device);
        return;
    }
    size_t at = 0;
    for (int i = 0; i < 16; i++)
        at +=
            (size_t)snprintf(text + at, size - at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

static gale_status fill_devices(const gale__cu_api *api, int count, gale__probe *out)
{
    gale_device_info *list = gale__calloc((size_t)count, sizeof *list);
    if (!list) return GALE_NO_MEMORY;
    int found = 0;
    for (int i = 0; i < count; i++) {
        gale_device_info *info = &list[found];
        int device = 0;
        if (api->device_get(&device, i)) continue;
        *info = (gale_device_info){.backend = api->maker->hip ? "hip" : "cuda", .index = i};
        if (api->device_name(info->name, sizeof info->name, device))
            snprintf(info->name, sizeof info->name, "%s device %d", api->maker->label, i);
        snprintf(info->vendor, sizeof info->vendor, "%s", api->maker->vendor);
        driver_words(api, info->driver, sizeof info->driver);
        fill_id(api, device, info->id, sizeof info->id);
        fill_caps(api, device, &info->caps);
        found++;
    }
    out->devices = list;
    out->count = found;
    return GALE_OK;
}

/* ---- why there is none ---- */

#define SAY(field, ...) snprintf(out->field, sizeof out->field, __VA_ARGS__)

/* Whether a PCI display or compute device of this vendor ("0x10de") is in the machine. */
static bool has_card(const char *vendor)
{
    gale__file_info *list = NULL;
    size_t count = 0;
    bool found = false;
    if (gale__folder_list("/sys/bus/pci/devices", &list, &count) != GALE_OK) return false;
    for (size_t i = 0; i < count && !found; i++) {
        char path[512];
        gale__bytes id = {0}, class = {0};
        snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/vendor", list[i].name);
        if (gale__file_read(path, 4096, &id) == GALE_OK && !strncmp(id.data, vendor, strlen(vendor))) {
            snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/class", list[i].name);
            found = gale__file_read(path, 4096, &class) == GALE_OK &&
                    (!strncmp(class.data, "0x03", 4) || !strncmp(class.data, "0x12", 4));
        }
        gale__bytes_finish(&id);
        gale__bytes_finish(&class);
    }
    gale__folder_list_free(&list, count);
    return found;
}

/* The node that must be usable, with the group that may. */
static bool denied(const char *path, gale__probe *out)
{
    char group[64];
    if (gale__path_access(path, group, sizeof group) != GALE__ACCESS_DENIED) return false;
    SAY(reason, "no permission to open %s (group %s)", path, group);
    SAY(remedy, "add yourself to the group: sudo usermod -aG %s $USER, then log in again", group);
    return true;
}

static void no_cuda_library(gale__probe *out)
{
    bool module = gale__file_exists("/proc/driver/nvidia/version"), node = gale__file_exists("/dev/nvidia0");
    if (module || node) {
        SAY(reason, "library not found: libcuda.so.1, although NVIDIA's kernel driver is %s",
            module ? "loaded" : "loaded (/dev/nvidia0)");
        SAY(remedy, "install libcuda1 (Debian) or libnvidia-compute-NNN (Ubuntu) of the kernel driver's version; in a "
                    "container: "
                    "--gpus all, NVIDIA_DRIVER_CAPABILITIES=compute,utility");
    } else if (has_card("0x10de")) {
        SAY(reason, "an NVIDIA GPU is present, but its driver is not installed (libcuda.so.1 not found, kernel driver "
                    "not loaded)");
        SAY(remedy,
            "install nvidia-driver and libcuda1 (Debian, non-free) or nvidia-driver-NNN (Ubuntu), then restart");
    } else {
        SAY(reason, "No GPU detected: no NVIDIA card, kernel driver or libcuda.so.1 on this machine");
        SAY(remedy, "if there is an NVIDIA card: install nvidia-driver and libcuda1 (Debian, non-free)");
    }
}

static void no_hip_library(gale__probe *out)
{
    if (has_card("0x1002") || gale__file_exists("/dev/kfd")) {
        SAY(reason, "an AMD GPU is present, but ROCm's HIP library was not found (libamdhip64.so)");
        SAY(remedy, "install libamdhip64-5 (Debian) or hip-runtime-amd (AMD's repository)");
    } else {
        SAY(reason, "No GPU detected: no AMD card, /dev/kfd or libamdhip64.so on this machine");
        SAY(remedy, "if there is an AMD card: install libamdhip64-5 (Debian) or hip-runtime-amd (AMD's repository)");
    }
}

/* What a failed start means, where the driver's own words do not say it. */
static const struct {
    int code;
    bool hip;
    const char *reason, *remedy;
} start_rows[] = {
    {GALE__CU_STUB_LIBRARY, false, "the CUDA toolkit's stub library was loaded instead of the driver",
        "remove .../lib64/stubs from LD_LIBRARY_PATH; install libcuda1 (Debian)"},
    {GALE__CU_SYSTEM_NOT_READY, false, "the system is not ready: NVSwitch needs the fabric manager",
        "start nvidia-fabricmanager"},
    {GALE__CU_SYSTEM_DRIVER_MISMATCH, false, "libcuda and the kernel driver have different versions",
        "restart the machine, or install both in the same version"},
    {GALE__CU_COMPAT_NOT_SUPPORTED, false, "libcuda of the compatibility package does not support this GPU",
        "remove cuda-compat, or update the driver"},
    {GALE__CU_UNKNOWN, false, "the driver does not start",
        "load its module: sudo modprobe nvidia_uvm (often needed after suspend)"},
    {GALE__CU_NOT_PERMITTED, false, "no permission to start the driver", "check the container's device permissions"},
};

static bool no_permission(const gale__cu_maker *maker, gale__probe *out)
{
    if (maker->hip) return denied("/dev/kfd", out) || denied("/dev/dri/renderD128", out);
    return denied("/dev/nvidia0", out) || denied("/dev/nvidiactl", out) || denied("/dev/nvidia-uvm", out);
}

static void no_start(const gale__cu_maker *maker, int code, const char *why, gale__probe *out)
{
    if (no_permission(maker, out)) return;
    SAY(reason, "the driver does not start: %s", why);
    SAY(remedy, "check that %s works, and look for kernel messages (dmesg)", maker->hip ? "rocminfo" : "nvidia-smi");
    for (size_t i = 0; i < sizeof start_rows / sizeof *start_rows; i++) {
        if (start_rows[i].code != code || start_rows[i].hip != maker->hip) continue;
        SAY(reason, "%s: %s", start_rows[i].reason, why);
        SAY(remedy, "%s", start_rows[i].remedy);
    }
}

static void no_device(const gale__cu_maker *maker, gale__probe *out)
{
    const char *variable = maker->hip ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES";
    const char *visible = getenv(variable);
    if (visible) {
        SAY(reason, "No GPU detected: %s=%s hides all devices", variable, visible);
        SAY(remedy, "unset %s", variable);
    } else if (no_permission(maker, out)) {
        return;
    } else if (maker->hip) {
        SAY(reason, "No GPU detected: the HIP driver finds no device%s",
            gale__file_exists("/dev/kfd") ? "" : " (/dev/kfd is missing: amdgpu is not loaded)");
        SAY(remedy,
            "load amdgpu; in a container: --device /dev/kfd --device /dev/dri --group-add render --group-add video");
    } else {
        SAY(reason, "No GPU detected: the CUDA driver finds no device%s",
            gale__file_exists("/dev/nvidia0") ? "" : " (/dev/nvidia0 is missing)");
        SAY(remedy, "load the kernel driver: sudo modprobe nvidia; in a container: --gpus all");
    }
}

static void give_reason(const gale__cu_maker *maker, gale__cu_step step, int code, gale__probe *out)
{
    char why[400];
    snprintf(why, sizeof why, "%s", gale_error());
    const char *driver = maker->hip ? "ROCm (libamdhip64)" : "NVIDIA's driver (libcuda1)";
    switch (step) {
    case GALE__CU_LIBRARY:
        if (*gale__env_get(maker->library)) SAY(reason, "%s", why);
        else if (maker->hip) no_hip_library(out);
        else no_cuda_library(out);
        break;
    case GALE__CU_DAMAGED:
        SAY(reason, "the driver's library does not load: %s", why);
        SAY(remedy, "install %s again", driver);
        break;
    case GALE__CU_SYMBOLS:
        SAY(reason, "%s", why);
        SAY(remedy, "install a newer version of %s", driver);
        break;
    case GALE__CU_TOO_OLD:
        SAY(reason, "version too old: %s", why);
        SAY(remedy, "install a newer version of %s", driver);
        break;
    default:
        if (code == GALE__CU_NO_DEVICE) no_device(maker, out);
        else no_start(maker, code, why, out);
    }
}

static gale_status probe(const gale__cu_maker *maker, gale__probe *out)
{
    const gale__cu_api *api;
    gale__cu_step step;
    int code, count = 0;
    *out = (gale__probe){0};
    gale_status status = gale__cu_load(maker, &api, &step, &code);
    if (status == GALE_NO_MEMORY && step != GALE__CU_INIT) return status;
    if (status == GALE_OK) {
        SAY(library, "%s", gale__dl_name(api->dl));
        code = api->device_count(&count);
        if (code && code != GALE__CU_NO_DEVICE) status = gale__cu_check(api, code, "counting devices");
        else if (count > 0) GALE_TRY(fill_devices(api, count, out));
        else code = GALE__CU_NO_DEVICE;
        step = GALE__CU_INIT;
    }
    if (out->count == 0) give_reason(maker, step, code, out);
    return GALE_OK;
}

gale_status gale__cu_probe_cuda(gale__probe *out) { return probe(&gale__cu_cuda, out); }
gale_status gale__cu_probe_hip(gale__probe *out) { return probe(&gale__cu_hip, out); }
