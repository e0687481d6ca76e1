/* Output of the program: errors and the library's log on stderr, results on stdout, colour only on a terminal. */
#include "cli/cli.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const gale__exit_texts[GALE__EXIT_COUNT] = {"done", "the task failed", "invalid command line",
    "no such provider or device", "results differ", "a result contains NaN or infinity only"};

bool gale__is_colour(FILE *f)
{
    const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
    return !(none && *none) && term && strcmp(term, "dumb") && isatty(fileno(f));
}

int gale__report(gale_status status)
{
    if (status == GALE_OK) return GALE__EXIT_OK;
    const char *why = *gale_error() ? gale_error() : gale_status_text(status);
    bool colour = gale__is_colour(stderr);
    fflush(stdout);
    fprintf(stderr, "%sgale: error:%s %s%s\n", colour ? "\033[1;31m" : "", colour ? "\033[0m" : "", why,
        status == GALE_NO_MEMORY ? "; use smaller inputs or batches, another --provider, or a higher limit" : "");
    return status == GALE_NO_DEVICE ? GALE__EXIT_NO_DEVICE : GALE__EXIT_FAILED;
}

int gale__report_compared(gale_status status)
{
    int code = gale__report(status);
    return status == GALE_MISMATCH ? GALE__EXIT_DIFFER : code;
}

gale_status gale__fail_stdout(void)
{
    int why = errno;
    return gale__fail(GALE_IO, "standard output: cannot write%s%s", why ? ": " : "", why ? strerror(why) : "");
}

gale_status gale__open_device(gale_device **out)
{
    return gale_device_open(&(gale_device_options){.place = true}, out);
}

int gale__on_device(const gale__args *a, gale_status (*work)(const gale__args *a, gale_device *device))
{
    gale_device *device = NULL;
    gale_status status = gale__open_device(&device);
    if (status == GALE_OK) status = work(a, device);
    int code = gale__report(status);
    gale_device_close(&device);
    return status == GALE_NOT_FINITE ? GALE__EXIT_NOT_FINITE : code;
}

int gale__usage(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    fputs("gale: ", stderr);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nTry 'gale %s%s--help'.\n", command ? command : "", command ? " " : "");
    return GALE__EXIT_USAGE;
}

void gale__print_line(FILE *out, const char *format, ...)
{
    gale__str line = {0};
    va_list args;
    va_start(args, format);
    gale__str_vaddf(&line, format, args);
    va_end(args);
    if (line.text) gale__text_make_plain(line.text, line.length, "\t");
    fprintf(out, "%s\n", gale__str_text(&line));
    gale__str_finish(&line);
}

int gale__print(gale__str *s)
{
    gale_status status = gale__str_check(s);
    if (status == GALE_OK) fwrite(gale__str_text(s), 1, s->length, stdout);
    gale__str_finish(s);
    return gale__report(status);
}

int gale__print_text(gale_status status, char **text)
{
    if (status == GALE_OK) fputs(*text, stdout);
    gale_free(*text);
    return gale__report(status);
}

int gale__print_json(gale_status status, char **text)
{
    int code = gale__print_text(status, text);
    if (code == GALE__EXIT_OK) puts("");
    return code;
}

static void print_line(void *user, int level, const char *line)
{
    static const char *const names[] = {"debug", "note", "warning"};
    static const char *const colours[] = {"\033[2m", "\033[36m", "\033[1;33m"};
    bool colour = user != NULL;
    fflush(stdout);
    fprintf(stderr, "%sgale: %s:%s %s\n", colour ? colours[level] : "", names[level], colour ? "\033[0m" : "", line);
}

void gale__log_to_stderr(gale__log_level least)
{
    static char yes;
    gale_log_set(print_line, gale__is_colour(stderr) ? &yes : NULL, least);
}
