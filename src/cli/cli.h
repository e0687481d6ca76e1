/* Commands, exit codes and the program's own voice.
 *
 * A command is a file cmd_NAME.c that defines `const gale__command gale__command_NAME`, and a row in commands.def. */
#ifndef GALE_CLI_CLI_H
#define GALE_CLI_CLI_H
#include "cli/args.h"
#include "gale/device.h"
#include <signal.h>
#include <stdio.h>

typedef enum gale__exit {
    GALE__EXIT_OK,
    GALE__EXIT_FAILED,     /* the work failed */
    GALE__EXIT_USAGE,      /* the command line is wrong */
    GALE__EXIT_NO_DEVICE,  /* no such provider or device */
    GALE__EXIT_DIFFER,     /* results differ */
    GALE__EXIT_NOT_FINITE, /* a result has no finite number in it */
    GALE__EXIT_COUNT
} gale__exit;
extern const char *const gale__exit_texts[GALE__EXIT_COUNT];

typedef struct gale__command {
    const gale__arg *args;              /* ends with {0} */
    int (*run)(const gale__args *args); /* returns an exit code */
    const char *about;                  /* a paragraph or two for --help and the manual */
    const char *examples;               /* lines "gale ...", each perhaps with "  # what it does" */
} gale__command;

typedef struct gale__command_row {
    const char *name, *group, *help;
    const gale__command *command;
} gale__command_row;
extern const gale__command_row gale__commands[]; /* ends with a NULL name */

#define X(name, group, help) extern const gale__command gale__command_##name;
#include "commands.def"
#undef X

/* Prints the error slot to stderr when status is a failure; returns the exit code that fits. */
int gale__report(gale_status status);
/* The same for a comparison: where the two cannot be compared because they do not match, they differ. */
int gale__report_compared(gale_status status);
/* GALE_IO: standard output could not be written, by errno. */
gale_status gale__fail_stdout(void);
/* The device that the environment and the options chose; where nobody chose one, models may run on the CPU instead, by
 * prediction. */
gale_status gale__open_device(gale_device **out);
/* Work on the device that the environment and the options chose; reports, and returns the exit code. */
int gale__on_device(const gale__args *a, gale_status (*work)(const gale__args *a, gale_device *device));
/* What is printed when a signal ends the program; NULL: nothing. */
extern const char *volatile gale__last_words;
/* A command that can stop in order sets `gale__ends_itself`: then the first signal that would end the program only sets
 * `gale__ending` to its number, and a second one ends it.  Afterwards the command calls gale__end_as_signalled, which
 * ends the program as the signal would have, or returns when there was none. */
extern volatile sig_atomic_t gale__ends_itself, gale__ending;
void gale__end_as_signalled(void);
/* Prints "gale: MESSAGE" with a hint at --help; returns GALE__EXIT_USAGE. */
int gale__usage(const char *command, const char *format, ...) GALE__PRINTF(2, 3);
/* Prints a line, and ends it: control characters, as names of files may contain, become `?`. */
void gale__print_line(FILE *out, const char *format, ...) GALE__PRINTF(2, 3);
/* Writes a finished text to stdout and frees it. */
int gale__print(gale__str *s);
/* Writes a text of the library's to stdout and frees it (gale_free); reports where making it failed.  text is a pointer
 * to it, since the call that makes it may stand among the arguments, in any order.  The JSON of most commands has an
 * empty line after it. */
int gale__print_text(gale_status status, char **text);
int gale__print_json(gale_status status, char **text);
/* Whether the stream is a terminal that likes colour (NO_COLOR and TERM=dumb say no). */
bool gale__is_colour(FILE *f);
/* Sends the library's log to stderr from `least` on. */
void gale__log_to_stderr(gale__log_level least);

/* Help, completion and manual, all from the tables. */
void gale__help_program(gale__str *out);
void gale__help_command(const gale__command_row *row, gale__str *out);
void gale__help_env(gale__str *out);
void gale__complete_bash(gale__str *out);
void gale__complete_zsh(gale__str *out);
void gale__complete_fish(gale__str *out);
/* Words that are found when a shell asks: of "providers" or "models", a line each. */
int gale__complete_words(const char *kind);
const char *gale__complete_kind(const gale__arg *a);             /* which of them an argument takes; NULL: none */
void gale__manual(const gale__command_row *row, gale__str *out); /* NULL row: the program's own page */

/* Adds text broken into lines of 80 columns, each indented; the first continues at column `at`. */
void gale__wrap(gale__str *out, int indent, int at, const char *text);
#endif
