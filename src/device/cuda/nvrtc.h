/* NVRTC and hipRTC: kernel source to machine code, with or without a device. */
#ifndef GALE_DEVICE_CUDA_NVRTC_H
#define GALE_DEVICE_CUDA_NVRTC_H
#include "device/cuda/driver.h"

/* Compiles `text`.  target: "sm_90" (machine code), "compute_90" (PTX), or "" (hipRTC: the current device).  options:
 * separated by blanks.  driver_major: a compiler no newer than the driver is preferred, since it may not load what a
 * newer one makes; 0 for none.  ours: text of our printers, which needs nothing of CUDA's run time and is cached by us.
 * The compiler's own message is in the error (GALE_BUILD). */
gale_status gale__rtc_compile(const gale__cu_maker *maker, int driver_major, bool ours, const char *text,
    const char *target, const char *options, gale__bytes *out);
/* The same for text of ours, in a process of this program: for processes of gale alone. */
gale_status gale__rtc_compile_apart(
    int driver_major, const char *text, const char *target, const char *options, gale__bytes *out);
gale_status gale__cu_compile_file(const char *path); /* what that process does: see gale__backend */
/* The target for a device of this compute capability: its own when the compiler knows it, else PTX of the newest older
 * one. GALE_UNSUPPORTED when the device is older than all it knows. */
gale_status gale__rtc_target(const gale__cu_maker *maker, int driver_major, int arch, char *target, size_t size);

/* For checks without a device. */
gale_status gale__nvrtc_compile_only(const char *text, const char *target, const char *options, gale__bytes *out);
/* The compute capabilities this NVRTC compiles for, oldest first (75, 80 ...); *count is the room, then the number. */
gale_status gale__nvrtc_archs(int *list, int *count);
#endif
