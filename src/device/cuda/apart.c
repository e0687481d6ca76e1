/* Compiles a kernel in a process of its own.  NVRTC's threads hold each other up: on an H200's 16 cores a program that
 * takes 0.13 s alone takes 0.47 s beside 15 others.  Text and code are files of a private folder; the first line of
 * the text says how it is compiled. */
#include "base/process.h"
#include "device/cuda/nvrtc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "// %d %s %s\n"

static gale_status write_source(
    const char *path, int driver_major, const char *text, const char *target, const char *options)
{
    gale__str s = {0};
    gale__str_addf(&s, HEAD, driver_major, target, options);
    gale__str_add(&s, text);
    gale_status status = gale__str_check(&s);
    if (status == GALE_OK) status = gale__file_write_unflushed(path, gale__str_text(&s), s.length);
    gale__str_finish(&s);
    return status;
}

static gale_status run_compiler(const char *source, const char *code, gale__bytes *out)
{
    char program[1024];
    gale__str said = {0};
    int end = 0;
    uint64_t begin = gale__time_ns();
    gale__process_self(program, sizeof program);
    const char *argv[] = {program, "selftest", "--provider", "cuda", "--compile", source, NULL};
    gale_status status = gale__process_run(argv, &said, &end);
    if (status == GALE_OK && end) status = gale__fail(GALE_BUILD, "exit code %d: %s", end, gale__str_text(&said));
    gale__log(GALE__DEBUG, "cuda: a process compiled in %.1f ms", (double)(gale__time_ns() - begin) / 1e6);
    gale__str_finish(&said);
    return status == GALE_OK ? gale__file_read(code, 0, out) : status;
}

gale_status gale__rtc_compile_apart(
    int driver_major, const char *text, const char *target, const char *options, gale__bytes *out)
{
    char folder[1024], source[1040], code[1048];
    GALE_TRY(gale__temp_folder_make(folder, sizeof folder));
    snprintf(source, sizeof source, "%s/kernel.cu", folder);
    snprintf(code, sizeof code, "%s.code", source);
    gale_status status = write_source(source, driver_major, text, target, options);
    if (status == GALE_OK) status = run_compiler(source, code, out);
    gale__temp_folder_remove(folder);
    if (status != GALE_OK)
        gale__log(GALE__INFO, "cuda: a kernel is compiled in this process instead of another: %s", gale_error());
    return status;
}

gale_status gale__cu_compile_file(const char *path)
{
    gale__bytes text = {0}, made = {0};
    gale_status status;
    char code[1048], *options = NULL;
    char *target = NULL;
    GALE_TRY(gale__file_read(path, 0, &text));
    char *end = strchr(text.data, '\n'), *major = strncmp(text.data, "// ", 3) ? NULL : (char *)text.data + 3;
    if (end) *end = 0;
    if (major) target = strchr(major, ' ');
    if (target) options = strchr(target + 1, ' ');
    if (!end || !options || snprintf(code, sizeof code, "%s.code", path) >= (int)sizeof code) {
        gale__bytes_finish(&text);
        return gale__fail(GALE_FORMAT, "%s: not a kernel that gale wrote to be compiled", path);
    }
    *target++ = *options++ = 0;
    GALE_GO(gale__rtc_compile(&gale__cu_cuda, atoi(major), true, end + 1, target, options, &made));
    GALE_GO(gale__file_write_unflushed(code, made.data, made.size));
done:
    gale__bytes_finish(&made);
    gale__bytes_finish(&text);
    return status;
}
