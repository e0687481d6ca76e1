/* The program: finds the command, parses its arguments by its table and runs it.  Options outside the tables
 * (--version, --completion, --manual, --help TOPIC) are handled here. */
#include "cli/cli.h"
#include "base/env.h"
#include "base/file.h"
#include "base/thread.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

const gale__command_row gale__commands[] = {
#define X(name, group, help) {#name, group, help, &gale__command_##name},
#include "commands.def"
#undef X
    {0},
};

static const gale__command_row *find_command(const char *name)
{
    for (const gale__command_row *r = gale__commands; r->name; r++)
        if (!strcmp(r->name, name)) return r;
    return NULL;
}

static int fail_unknown(const char *word)
{
    const char *names[64];
    size_t n = 0;
    for (const gale__command_row *r = gale__commands; r->name && n < 63; r++) names[n++] = r->name;
    names[n] = NULL;
    const char *near = gale__nearest(word, names);
    return near ? gale__usage(NULL, "unknown command '%s'; did you mean '%s'?", word, near)
                : gale__usage(NULL, "unknown command '%s'", word);
}

static int run_help(const char *topic)
{
    gale__str out = {0};
    const gale__command_row *row = topic ? find_command(topic) : NULL;
    if (row) gale__help_command(row, &out);
    else if (!topic) gale__help_program(&out);
    else if (!strcmp(topic, "env")) gale__help_env(&out);
    else return fail_unknown(topic);
    return gale__print(&out);
}

static int run_completion(const char *shell)
{
    gale__str out = {0};
    if (shell && !strcmp(shell, "bash")) gale__complete_bash(&out);
    else if (shell && !strcmp(shell, "zsh")) gale__complete_zsh(&out);
    else if (shell && !strcmp(shell, "fish")) gale__complete_fish(&out);
    else return gale__usage(NULL, "--completion needs bash, zsh or fish");
    return gale__print(&out);
}

static int run_manual(const char *name)
{
    gale__str out = {0};
    const gale__command_row *row = name ? find_command(name) : NULL;
    if (name && !row) return fail_unknown(name);
    gale__manual(row, &out);
    return gale__print(&out);
}

static int run_command(const gale__command_row *row, int argc, char **argv)
{
    gale__args args;
    gale_status status = gale__args_parse(row->command->args, argc, argv, &args);
    if (status == GALE_INVALID) return gale__usage(row->name, "%s: %s", row->name, gale_error());
    if (status != GALE_OK) return gale__report(status);
    int code;
    if (gale__args_flag(&args, "help")) {
        code = run_help(row->name);
    } else if (gale__args_check_overwrites(&args) != GALE_OK) {
        code = gale__usage(row->name, "%s: %s", row->name, gale_error());
    } else {
        bool all = gale__args_flag(&args, "verbose") || gale__env_get_i64(GALE__ENV_DEBUG, 0);
        gale__log_to_stderr(all ? GALE__DEBUG : GALE__WARN);
        if (gale__args_flag(&args, "quiet")) gale_log_set(NULL, NULL, GALE__WARN);
        code = row->command->run(&args);
    }
    gale__args_finish(&args);
    gale__parallel_finish();
    return code;
}

static int run(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL, *next = argc > 2 ? argv[2] : NULL;
    if (!word) {
        run_help(NULL);
        return GALE__EXIT_USAGE;
    }
    if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) return run_help(next);
    if (!strcmp(word, "--completion")) return run_completion(next);
    if (!strcmp(word, "--complete")) return gale__complete_words(next);
    if (!strcmp(word, "--manual")) return run_manual(next);
    if (!strcmp(word, "--version") || !strcmp(word, "-V")) {
        printf("gale %s\n", gale_version());
        return GALE__EXIT_OK;
    }
    if (word[0] == '-') return gale__usage(NULL, "unknown option '%s'", word);
    const gale__command_row *row = find_command(word);
    return row ? run_command(row, argc - 2, argv + 2) : fail_unknown(word);
}

const char *volatile gale__last_words;
volatile sig_atomic_t gale__ends_itself, gale__ending;

/* Half a file is nobody's: then the program ends as the signal says. */
static void on_end(int number)
{
    const char *words = gale__last_words;
    const struct sigaction again = {.sa_handler = on_end, .sa_flags = (int)SA_RESETHAND | SA_NODEFER};
    if (gale__ends_itself && number != SIGPIPE) {
        gale__ends_itself = 0;
        gale__ending = number;
        sigaction(number, &again, NULL); /* a second signal ends the program at once */
        return;
    }
    gale__file_abandon_all(true);
    if (words && number != SIGPIPE && write(STDERR_FILENO, words, strlen(words)) < 0) words = NULL;
    signal(number, SIG_DFL);
    raise(number);
}

void gale__end_as_signalled(void)
{
    gale__ends_itself = 0;
    if (!gale__ending) return;
    fflush(stdout);
    on_end(gale__ending);
}

static void watch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction was, now = {.sa_handler = on_end, .sa_flags = (int)SA_RESETHAND | SA_NODEFER};
        if (!sigaction(numbers[i], NULL, &was) && was.sa_handler == SIG_DFL)
            sigaction(numbers[i], &now, NULL); /* one that is ignored stays so */
    }
    signal(SIGXFSZ, SIG_IGN); /* then a write past the limit of a file's size fails like one to a full disk */
}

/* Where one of the three was closed by whoever started us, the next file that is opened, a picture, would get its
 * number, and what is printed would be written into it.  Reading and writing there fail all the same. */
static void hold_numbers(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
}

int main(int argc, char **argv)
{
    hold_numbers();
    gale_workarounds_apply();
    watch_signals();
    int code = run(argc, argv);
    /* A full disk or a closed pipe must not look like success. */
    errno = 0;
    if ((fflush(stdout) || ferror(stdout)) && code == GALE__EXIT_OK) code = gale__report(gale__fail_stdout());
    return code;
}
