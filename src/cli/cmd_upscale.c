/* gale upscale: pictures through a network, file by file. */
#include "cli/cli.h"
#include "cli/model_args.h"
#include "cli/progress.h"
#include "cli/upscale_args.h"
#include "cli/upscale_frames.h"
#include "cli/upscale_report.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/thread.h"
#include "gale/upscale.h"
#include "jobs/batch/files.h"
#include "jobs/batch/inputs.h"
#include "jobs/batch/output.h"
#include "jobs/batch/folder_watch.h"
#include "jobs/upscale/embedded.h"
#include "jobs/upscale/upscale.h"
#include "media/picture.h"
#include <string.h>
#include <unistd.h>

#define STDIN "/dev/stdin"

typedef struct job {
    const gale__args *args;
    gale_device *device;
    gale_upscaler *upscaler;
    gale__inputs inputs;
    gale__upscale_sum sum;
    gale__progress progress;
    char label[400];    /* of the progress: how far the files are, and which one it is */
    size_t begun, todo; /* files */
    uint64_t begun_ns;
    bool to_stdout;
    gale__folder_watch *watch; /* NULL: the pictures that there are, once */
} job;

/* By their names in the file system they are files like others, but for the words that are printed, and for what a
 * result would be called. */
static bool is_piped(const char *text)
{
    return !strcmp(text, "-") || !strcmp(text, STDIN) || !strcmp(text, "/dev/stdout");
}

static bool on_progress(void *user, int64_t done, int64_t tiles)
{
    gale__progress *p = user;
    p->total = (uint64_t)tiles;
    if (p->done > (uint64_t)done) p->done = 0;
    gale__progress_add(p, (uint64_t)done - p->done);
    return !gale__ending;
}

static gale_status open_network(job *j)
{
    gale__str path = {0};
    const char *setting;
    gale_model_options options;
    gale_status status;
    gale__model_options(j->args, &options);
    GALE_GO(gale__model_find(gale__args_text(j->args, "model"), &path));
    GALE_GO(gale_upscaler_open(path.text, j->device, &options, &j->upscaler));
    gale_upscaler_get_info(j->upscaler, &j->sum.info);
    j->sum.automatic = !strcmp(path.text, GALE__EMBEDDED_AUTO);
    if (j->sum.automatic && gale__args_given(j->args, "scale") && gale__args_real(j->args, "scale") == 1)
        j->sum.info.name = GALE__EMBEDDED_CLEAN, j->sum.info.scale = 1; /* the only one that runs */
    for (size_t i = 0; (setting = gale__args_item(j->args, "control", i)); i++)
        GALE_GO(gale_upscaler_set(j->upscaler, setting));
done:
    gale__str_finish(&path);
    return status;
}

/* What --format says; people write a name's end for it. */
static const char *format_of(const gale__args *a)
{
    const char *text = gale__args_text(a, "format");
    return text && *text == '.' ? text + 1 : text;
}

static gale_picture_read_options read_options(const gale__args *a)
{
    return (gale_picture_read_options){
        .layer = gale__args_text(a, "layer"), .tolerant = gale__args_flag(a, "tolerant"), .first_frame = true};
}

static gale_picture_write_options write_options(const gale__args *a)
{
    return (gale_picture_write_options){.format = format_of(a),
        .quality = gale__args_given(a, "quality") ? (int)gale__args_int(a, "quality") : 0,
        .lossless = gale__args_flag(a, "lossless")};
}

/* Names for all that is to be written.  One that was given by hand is for the only picture. */
static gale_status name_outputs(job *j)
{
    const char *suffix = gale__args_text(j->args, "suffix"), *only = gale__args_text(j->args, "output");
    char usual[256];
    snprintf(usual, sizeof usual, "-%s", j->sum.info.name);
    for (char *c = usual; *c; c++)
        if (*c == '/' || (unsigned char)*c < ' ') *c = '-'; /* a model may be called "x4 / sharp" */
    if (only && j->inputs.count > 1)
        return gale__fail(
            GALE_INVALID, "--output is for a single picture, but there are %zu; use --output-dir", j->inputs.count);
    if (only && j->inputs.count) j->inputs.list[0].output = only;
    else
        GALE_TRY(gale__inputs_name(
            &j->inputs, gale__args_text(j->args, "output-dir"), suffix ? suffix : usual, format_of(j->args)));
    const char *page = gale__args_text(j->args, "report");
    for (size_t i = 0; page && i < j->inputs.count; i++)
        if (gale__file_same(page, j->inputs.list[i].path))
            return gale__fail(GALE_INVALID, "--report: %s is one of the pictures; choose another name", page);
    return gale__inputs_settle(&j->inputs, &j->sum.left_out);
}

static void set_size(const job *j, const gale_picture *p, gale_upscale_options *o)
{
    double scale = gale__args_given(j->args, "scale") ? gale__args_real(j->args, "scale") : j->sum.info.scale;
    o->width = gale__args_int(j->args, "width");
    o->height = gale__args_int(j->args, "height");
    if (o->width || o->height)
        scale = o->width ? (double)o->width / (double)p->width : (double)o->height / (double)p->height;
    if (!o->width) o->width = (int64_t)((double)p->width * scale + 0.5);
    if (!o->height) o->height = (int64_t)((double)p->height * scale + 0.5);
    if (o->width < 1) o->width = 1;
    if (o->height < 1) o->height = 1;
}

/* From the dot on; NULL: it has none. */
static const char *extension_of(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return path ? strrchr(slash ? slash : path, '.') : NULL;
}

/* As floats, and as samples of the given size in bytes. */
static gale_status check_memory(const gale_picture *p, int64_t width, int64_t height, size_t sample)
{
    double bytes = (double)width * (double)height * p->channels * (double)(sizeof(float) + sample),
           all = (double)gale__cpu_memory_bytes();
    if (bytes <= all) return GALE_OK;
    return gale__fail(GALE_NO_MEMORY, "%lld x %lld pixels need %.0f GiB, but this machine has %.0f GiB",
        (long long)width, (long long)height, bytes / (1 << 30), all / (1 << 30));
}

/* What can be told beforehand is told before the network runs, which may take long: a format that cannot hold the
 * result, a folder that takes no files, more pixels than there is memory for, in the end or on the way. */
static gale_status check_output(const job *j, gale__file_task *t, const gale_upscale_options *o)
{
    const char *given = format_of(j->args), *extension = extension_of(t->output);
    if (!given && !(extension && gale__format_of_name(extension))) t->format = gale__format_instead(t->picture->format);
    GALE_TRY(gale__format_check(given ? given : t->format ? t->format : extension, o->width, o->height));
    if (t->output) GALE_TRY(gale__file_check(t->output));
    int64_t width = t->picture->width, height = t->picture->height;
    for (int passes = 0; gale__upscale_next(j->sum.info.scale, o->width, o->height, passes, &width, &height);
         passes++) {
        width *= j->sum.info.scale, height *= j->sum.info.scale;
        GALE_TRY(check_memory(t->picture, width, height, 0));
    }
    return check_memory(t->picture, o->width, o->height, gale_type_size(t->picture->type));
}

/* How far the files are, where there are many: "3 of 200 files, 0.5/s, 6 min 30 s left; photo.jpg". */
static const char *label(job *j, const char *input)
{
    double seconds = (double)(gale__time_ns() - j->begun_ns) / 1e9, each = j->begun ? seconds / (double)j->begun : 0;
    char left[32];
    int n = 0;
    if (j->todo > 1) n = snprintf(j->label, sizeof j->label, "%zu of %zu files", j->begun + 1, j->todo);
    if (j->todo > 1 && each > 0)
        n += snprintf(j->label + n, sizeof j->label - (size_t)n, ", %.1f/s, %s left", 1 / each,
            gale__duration_text(each * (double)(j->todo - j->begun), left));
    snprintf(j->label + n, sizeof j->label - (size_t)n, "%s%s", n ? "; " : "", input);
    j->begun++;
    return j->label;
}

/* What the page shows of the first picture.  A page without it is still one. */
static void keep_pictures(job *j, const gale_picture *before, const gale_picture *after)
{
    if (!gale__args_given(j->args, "report") || j->sum.before) return;
    gale_status status = gale__upscale_keep(&j->sum, before, after);
    if (status != GALE_OK) gale__log(GALE__WARN, "--report: no pictures: %s", gale_error());
}

/* Where the network is now.  The device may be gone before the names are printed. */
static gale_status note_device(job *j, gale__upscale_where *where)
{
    const gale_device_info *info = gale_device_get_info(gale_upscaler_device(j->upscaler));
    *where = (gale__upscale_where){info->backend, gale__arena_strdup(&j->inputs.arena, info->name), info->index};
    return where->device ? GALE_OK : GALE_NO_MEMORY;
}

/* What a person means by 0, which in the options stands for the usual. */
static int64_t or_zero(int64_t given, int64_t zero) { return given ? given : zero; }

static gale_upscale_options upscale_options(job *j)
{
    gale_upscale_options o = GALE_UPSCALE_OPTIONS;
    if (gale__args_given(j->args, "tile")) o.tile = or_zero(gale__args_int(j->args, "tile"), GALE_TILE_WHOLE);
    if (gale__args_given(j->args, "overlap"))
        o.overlap = or_zero(gale__args_int(j->args, "overlap"), GALE_OVERLAP_NONE);
    o.batch = or_zero(gale__args_int(j->args, "batch"), GALE_BATCH_AUTO);
    o.lanes = gale__args_int(j->args, "lanes");
    if (gale__args_given(j->args, "clean")) {
        double clean = gale__args_real(j->args, "clean");
        o.clean = clean > 0 ? clean : GALE_CLEAN_NONE;
    }
    o.no_check = gale__args_flag(j->args, "no-self-check");
    o.progress = on_progress;
    o.user = &j->progress;
    o.cancel = &gale__ending;
    return o;
}

static void on_first(void *user, const gale_picture *before, const gale_picture *after)
{
    keep_pictures(user, before, after);
}

/* The format that the result gets. */
static const char *format_for(const job *j, const gale__file_task *t)
{
    const char *given = format_of(j->args);
    return given ? given : t->format ? t->format : extension_of(t->output);
}

/* All frames, which are written here; then there is no file to write. */
static gale_status animate(job *j, gale__file_task *t, const gale_upscale_options *o)
{
    gale__upscale_row *r = t->user;
    gale__frames_task f = {t->input, t->output, read_options(j->args), write_options(j->args), *o, on_first, j};
    f.write.format = format_for(j, t);
    GALE_TRY(gale__upscale_frames(j->upscaler, &f, &r->report));
    memcpy(r->size, f.size, sizeof r->size);
    r->frames = f.frames;
    t->output = NULL;
    return GALE_OK;
}

static gale_status run_network(job *j, gale__file_task *t, const gale_upscale_options *o)
{
    gale_picture *out = NULL;
    gale__upscale_row *r = t->user;
    bool animated = t->picture->frames > 1;
    if (animated && gale__upscale_takes_frames(t->output, format_for(j, t))) return animate(j, t, o);
    if (animated)
        gale__log(GALE__WARN, "%s does not support animation: only the first of %d frames is used", format_for(j, t),
            t->picture->frames);
    GALE_TRY(gale_upscale(j->upscaler, t->picture, o, &r->report, &out));
    keep_pictures(j, t->picture, out);
    memcpy(r->size, (int64_t[4]){t->picture->width, t->picture->height, out->width, out->height}, sizeof r->size);
    gale_picture_destroy(&t->picture);
    t->picture = out;
    return GALE_OK;
}

static gale_status upscale(void *user, gale__file_task *t)
{
    job *j = user;
    gale__upscale_row *r = t->user;
    gale_upscale_options o = upscale_options(j);
    set_size(j, t->picture, &o);
    gale_status status = check_output(j, t, &o);
    if (status != GALE_OK) return gale__fail_within(status, "%s", t->input);
    uint64_t begun = gale__time_ns();
    gale__progress_begin(&j->progress, label(j, t->input), "tiles", 0);
    status = run_network(j, t, &o);
    gale__progress_end(&j->progress);
    if (status != GALE_OK) return gale__fail_within(status, "%s", t->input);
    r->seconds = (double)(gale__time_ns() - begun) / 1e9;
    return note_device(j, &r->where);
}

/* What goes to standard output is encoded here; then there is no file to write. */
static gale_status to_stdout(job *j, gale__file_task *t, const char *format)
{
    void *data = NULL;
    size_t size = 0;
    gale_picture_write_options o = write_options(j->args);
    if (!o.format) o.format = format;
    GALE_TRY(gale_picture_to_memory(t->picture, &o, &data, &size));
    bool written = fwrite(data, 1, size, stdout) == size && !fflush(stdout);
    gale_free(data);
    return written ? GALE_OK : gale__fail_stdout();
}

static bool skips_existing(const job *j) { return j->watch || gale__args_flag(j->args, "skip-existing"); }

/* Whether the picture is ours: nobody else is at it, and nobody has done it since the list was made. */
static gale_status claim(const job *j, gale__file_task *t, bool *ours)
{
    gale__upscale_row *r = t->user;
    *ours = true;
    if (!skips_existing(j) || !t->output || gale__upscale_is_numbered(t->output)) return GALE_OK;
    GALE_TRY(gale__work_claim_take(t->output, &r->claim, ours));
    if (gale__file_exists(t->output)) *ours = false;
    r->elsewhere = !*ours;
    if (!*ours) t->output = NULL;
    return GALE_OK;
}

static gale_status upscale_one(void *user, gale__file_task *t)
{
    job *j = user;
    bool ours = true;
    const char *format = gale__format_instead(t->picture->format);
    if (gale__ending)
        return gale__fail(GALE_CANCELLED, "%s: not started, because the program was interrupted", t->input);
    const char *before = gale__log_about(t->input);
    gale_status status = claim(j, t, &ours);
    if (status == GALE_OK && ours) status = upscale(user, t);
    if (status == GALE_OK && ours && j->to_stdout && !((gale__upscale_row *)t->user)->frames)
        status = to_stdout(j, t, format);
    gale__log_about(before);
    return status;
}

/* A file that fails does not end the others. */
static void finish_file(void *user, gale__file_task *t)
{
    job *j = user;
    gale__upscale_row *r = t->user;
    gale__work_claim_release(&r->claim);
    if (r->elsewhere) j->sum.skipped++;
    bool held = r->elsewhere && !gale__file_exists(r->output); /* by one that may yet end without having done it */
    bool told = !j->watch || held || gale__folder_watch_note(j->watch, t->input, t->status);
    if (t->status != GALE_OK && !told) return; /* it may not be complete yet */
    if (r->elsewhere) return;
    if (t->status != GALE_OK) {
        const char *why = t->message
                              ? t->message
                              : gale__arena_printf(&j->inputs.arena, "%s: %s", t->input, gale_status_text(t->status));
        r->error = why ? gale__arena_strdup(&j->inputs.arena, why) : NULL;
        if (!r->error) r->error = gale_status_text(t->status);
        bool cancelled = t->status == GALE_CANCELLED && gale__ending;
        if (cancelled) j->sum.cancelled++;
        else gale__report(gale__fail(t->status, "%s", r->error)), j->sum.failed++;
        return;
    }
    r->read_seconds = (double)t->read_ns / 1e9;
    r->write_seconds = (double)t->write_ns / 1e9;
    j->sum.done++;
    j->sum.tiles += (uint64_t)r->report.tiles;
    j->sum.cleaned += r->report.cleaned > 0;
    j->sum.run_seconds += r->seconds;
    if (j->to_stdout || gale__args_flag(j->args, "json")) return;
    char frames[32] = "", cleaned[128];
    gale__upscale_cleaned(r, cleaned, sizeof cleaned);
    if (r->frames) snprintf(frames, sizeof frames, "%d frames, ", r->frames);
    gale__print_line(stdout, "%s: %lld x %lld -> %s: %lld x %lld, %s%lld tile%s of %lld x %lld%s%s, %.2f s", t->input,
        (long long)r->size[0], (long long)r->size[1], r->output, (long long)r->size[2], (long long)r->size[3], frames,
        (long long)r->report.tiles, r->report.tiles == 1 ? "" : "s", (long long)r->report.tile_width,
        (long long)r->report.tile_height, r->report.by_memory ? " (limited by memory)" : "", cleaned, r->seconds);
    fflush(stdout);
}

/* Those that are to be done.  A folder that is not there is one failure among others. */
static gale_status list_inputs(job *j)
{
    const char *argument;
    for (size_t i = 0; (argument = gale__args_item(j->args, "INPUT", i)); i++) {
        if (is_piped(argument)) argument = STDIN;
        gale_status status = gale__inputs_add(&j->inputs, argument, gale__args_flag(j->args, "recursive"));
        if (status == GALE_NO_MEMORY) return status;
        if (status == GALE_NOT_FOUND && j->watch) continue; /* a folder that is empty still */
        if (status != GALE_OK) gale__report(status), j->sum.failed++;
    }
    j->sum.failed += (int)j->inputs.unread;
    j->sum.ignored = j->inputs.ignored;
    j->sum.ignored_count = j->inputs.ignored_count;
    return GALE_OK;
}

static gale_status make_tasks(job *j, gale__file_task *tasks)
{
    for (size_t i = 0; i < j->inputs.count; i++) {
        const gale__input *in = &j->inputs.list[i];
        if (j->watch && !gale__folder_watch_is_ready(j->watch, in->path)) continue;
        if (skips_existing(j) && !j->to_stdout && gale__file_exists(in->output)) {
            if (j->watch) gale__folder_watch_note(j->watch, in->path, GALE_OK);
            else j->sum.skipped++;
            continue;
        }
        const char *slash = *in->below ? strrchr(in->output, '/') : NULL;
        char *folder =
            slash ? gale__arena_printf(&j->inputs.arena, "%.*s", (int)(slash - in->output), in->output) : NULL;
        if (folder) GALE_TRY(gale__folder_make_public(folder));
        gale__upscale_row *r = &j->sum.rows[j->sum.count];
        *r = (gale__upscale_row){.input = in->path, .output = j->to_stdout ? NULL : in->output};
        tasks[j->sum.count++] = (gale__file_task){.input = r->input, .output = r->output, .user = r};
    }
    return GALE_OK;
}

/* The pictures that are listed, or of those the ones that are ready. */
static gale_status run_listed(job *j)
{
    gale__file_job files = {.work = upscale_one, .done = finish_file, .user = j, .read = read_options(j->args)};
    files.write = write_options(j->args);
    GALE_TRY(name_outputs(j));
    gale__file_task *tasks = gale__calloc(j->inputs.count + 1, sizeof *tasks);
    j->sum.rows = gale__calloc(j->inputs.count + 1, sizeof *j->sum.rows);
    gale_status status = tasks && j->sum.rows ? make_tasks(j, tasks) : GALE_NO_MEMORY;
    j->todo = j->sum.count;
    if (j->todo > 1 && !j->watch)
        gale__last_words = "\ngale: interrupted; run the same command with --skip-existing to resume\n";
    gale__ends_itself = j->watch || gale__args_flag(j->args, "json"); /* what is done is to be told */
    if (status == GALE_OK) status = gale__files_run(&files, tasks, j->sum.count);
    gale__free(tasks);
    return status;
}

static gale_status watch_once(job *j)
{
    bool *ready = NULL, any = false;
    gale_status status;
    GALE_GO(list_inputs(j));
    ready = gale__calloc(j->inputs.count + 1, sizeof *ready);
    GALE_GO(ready ? gale__folder_watch_look(j->watch, &j->inputs, ready) : GALE_NO_MEMORY);
    for (size_t i = 0; i < j->inputs.count; i++) any |= ready[i];
    if (any) GALE_GO(run_listed(j));
done:
    gale__free(ready);
    gale__free(j->sum.rows);
    j->sum.rows = NULL;
    j->sum.count = j->begun = 0;
    gale__inputs_finish(&j->inputs);
    return status;
}

/* Until the program is ended. */
static gale_status run_watch(job *j)
{
    gale__folder_watch w = {0};
    gale_status status = GALE_OK;
    j->watch = &w;
    gale__ends_itself = true;
    while (!gale__ending && status == GALE_OK) {
        status = watch_once(j);
        for (int i = 0; i < 10 && !gale__ending && status == GALE_OK; i++) gale__sleep_ns(100000000);
    }
    gale__folder_watch_finish(&w);
    j->watch = NULL;
    j->sum.ignored_count = 0; /* what there was of it is gone */
    return status;
}

static gale_status run_files(job *j)
{
    if (gale__args_flag(j->args, "watch")) return run_watch(j);
    GALE_TRY(list_inputs(j));
    return run_listed(j);
}

static gale_status write_page(const job *j)
{
    gale__str page = {0};
    gale_status status = gale__upscale_html(&j->sum, &page);
    if (status == GALE_OK) status = gale__file_write(gale__args_text(j->args, "report"), page.text, page.length);
    gale__str_finish(&page);
    return status;
}

static int work(job *j)
{
    gale__str out = {0};
    j->begun_ns = gale__time_ns();
    gale_status status =
        gale__args_given(j->args, "report") ? gale__file_check(gale__args_text(j->args, "report")) : GALE_OK;
    if (status == GALE_OK) status = open_network(j);
    if (status == GALE_OK && gale__args_given(j->args, "output-dir"))
        status = gale__folder_make_public(gale__args_text(j->args, "output-dir"));
    if (status == GALE_OK) status = run_files(j);
    if (status == GALE_OK) status = note_device(j, &j->sum.where);
    if (status != GALE_OK) return gale__report(status);
    j->sum.seconds = (double)(gale__time_ns() - j->begun_ns) / 1e9;
    if (gale__args_flag(j->args, "json")) gale__upscale_json(&j->sum, &out);
    else if (!j->to_stdout) gale__upscale_line(&j->sum, &out);
    int code = j->to_stdout ? GALE__EXIT_OK : gale__print(&out);
    if (gale__args_given(j->args, "report")) {
        int page = gale__report(write_page(j));
        if (page != GALE__EXIT_OK) code = page;
    }
    gale__end_as_signalled();
    gale__last_words = NULL;
    return j->sum.failed ? GALE__EXIT_FAILED : code;
}

/* What the table of arguments cannot say; 0: nothing is wrong. */
static int check_usage(const gale__args *a, bool to_stdout)
{
    const char *format = format_of(a), *output = gale__args_text(a, "output"), *input;
    int piped = 0;
    if (output && (gale__args_item(a, "INPUT", 1) || gale__args_given(a, "output-dir")))
        return gale__usage("upscale", "--output is for a single picture; use --output-dir");
    if (output && (gale__folder_exists(output) || output[strlen(output) - 1] == '/'))
        return gale__usage("upscale", "--output: %s is a folder; use --output-dir", output);
    if (gale__args_given(a, "scale") && (gale__args_given(a, "width") || gale__args_given(a, "height")))
        return gale__usage("upscale", "--scale cannot be combined with --width and --height");
    if (gale__args_flag(a, "watch") &&
        (!gale__args_given(a, "output-dir") || gale__args_flag(a, "json") || gale__args_given(a, "report")))
        return gale__usage("upscale", "--watch needs --output-dir, and cannot be combined with --json or --report");
    if (to_stdout && gale__args_flag(a, "json"))
        return gale__usage("upscale", "standard output cannot take both the picture and the JSON");
    if (to_stdout && isatty(STDOUT_FILENO))
        return gale__usage("upscale", "standard output is a terminal: redirect it, or use --output FILE");
    for (size_t i = 0; (input = gale__args_item(a, "INPUT", i)); i++) piped += is_piped(input);
    if (piped > 1) return gale__usage("upscale", "standard input can be used only once");
    if (piped && isatty(STDIN_FILENO))
        return gale__usage("upscale", "standard input is a terminal: redirect a picture to it, or name a file");
    if (piped && !to_stdout && !output && !gale__args_given(a, "output-dir"))
        return gale__usage("upscale", "standard input together with other files needs --output-dir");
    const char *name = format ? format : extension_of(output);
    if (name && gale__format_check(name + (*name == '.'), 0, 0) != GALE_OK)
        return gale__usage("upscale", "--%s: %s", format ? "format" : "output", gale_error());
    return 0;
}

static int run(const gale__args *a)
{
    job j = {.args = a};
    const char *only = gale__args_item(a, "INPUT", 1) ? "" : gale__args_item(a, "INPUT", 0);
    j.to_stdout = is_piped(gale__args_given(a, "output")       ? gale__args_text(a, "output")
                           : gale__args_given(a, "output-dir") ? ""
                                                               : only);
    int wrong = check_usage(a, j.to_stdout);
    if (wrong) return wrong;
    gale_status status = gale__open_device(&j.device);
    int code = status == GALE_OK ? work(&j) : gale__report(status);
    gale_picture_destroy(&j.sum.before);
    gale_picture_destroy(&j.sum.after);
    gale__free(j.sum.rows);
    gale__inputs_finish(&j.inputs);
    gale_upscaler_close(&j.upscaler);
    gale_device_close(&j.device);
    return code;
}

const gale__command gale__command_upscale = {
    .args = gale__upscale_args,
    .run = run,
    .about =
        "Runs pictures through an image-to-image network: enlarging, denoising, restoring. Pictures of "
        "any bit depth are processed in tiles, which are blended without seams; alpha, colour profile, EXIF, XMP and "
        "resolution are kept. What the network needs (layout, range, multiples, controls) is read from its "
        "manifest or determined with a small test run.",
    .examples = "  gale upscale photo.jpg                                      # twice as large: photo-zoom2x.jpg\n"
                "  gale upscale *.jpg --output-dir large --width 4000          # many, to a width\n"
                "  gale upscale holidays --recursive --output-dir large        # a folder; again with --skip-existing "
                "after an interruption\n"
                "  gale upscale inbox --watch --output-dir large               # every picture that appears there\n"
                "  gale upscale old.jpg --scale 1                              # only removes JPEG artefacts and "
                "noise: old-clean.jpg\n"
                "  gale upscale noisy.png --model scunet.onnx -o clean.png     # with a network of your own\n"
                "  gale upscale photo.png --model zoom2x-ctrl.onnx --control denoise=0.7 --width 4000",
};
