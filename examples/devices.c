/* What this machine has for gale: every device, and why a provider has none.
 *
 *     devices [--json] */
#include <gale/machine.h>
#include <stdio.h>
#include <string.h>

static int print_json(const gale_devices_result *r)
{
    char *text = NULL;
    if (gale_devices_result_json(r, &text) != GALE_OK) return 1;
    fputs(text, stdout);
    gale_free(text);
    return 0;
}

int main(int argc, char **argv)
{
    gale_devices_result *r = NULL;
    int code = 0;
    gale_workarounds_apply();
    if (gale_devices_list(NULL, &r) != GALE_OK) {
        fprintf(stderr, "%s\n", gale_error());
        return 1;
    }
    if (argc > 1 && !strcmp(argv[1], "--json")) code = print_json(r);
    else
        for (size_t i = 0; i < r->n_providers; i++) {
            const gale_provider_state *p = &r->providers[i];
            printf("%-10s %s\n", p->name, p->device ? p->device->name : p->reason);
        }
    gale_devices_result_destroy(&r);
    return code;
}
