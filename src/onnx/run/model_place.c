/* Which of several devices a model runs on: the one that its run is predicted to take the least time on, or, where
 * nothing can be predicted, took it when all were tried.  Where a device has not been measured the first one given
 * keeps the work, since callers name the one they prefer first. */
#include "onnx/run/model_place.h"
#include "graph/run/forecast.h"
#include "onnx/run/session.h"
#include <stdio.h>

static const char *name_of(const gale_device *device, char name[48])
{
    snprintf(name, 48, "%.32s:%d", device->info.backend, device->info.index);
    return name;
}

static const char *time_of(double us, char text[32])
{
    snprintf(text, 32, us < 1000 ? "%.2f us" : "%.2f ms", us < 1000 ? us : us / 1e3);
    return text;
}

static bool is_measured(const gale_device *device)
{
    char name[48];
    if (gale__forecast_known(device)) return true;
    gale__log(GALE__INFO, "%s has not been measured (`gale devices --measure`), so devices are not compared",
        name_of(device, name));
    return false;
}

gale_device *gale__place_other(const gale_device *device)
{
    return device->other && is_measured(device) && is_measured(device->other) ? device->other : NULL;
}

static int best_of(gale_device *const *devices, const double *times_us, int n)
{
    int best = 0;
    for (int i = 0; i < n; i++) {
        if (times_us[i] < 0) return is_measured(devices[i]), 0;
        if (times_us[i] < times_us[best]) best = i;
    }
    return best;
}

void gale__place_log(gale_device *const *devices, const double *times_us, int n, int best, const char *verb)
{
    char name[48], time[32];
    for (int i = 0; i < n && times_us[best] >= 0; i++)
        if (times_us[i] >= 0)
            gale__log(GALE__INFO, "%s %s %s%s", name_of(devices[i], name), verb, time_of(times_us[i], time),
                i == best ? " and is chosen" : "");
}

static gale_status choose_by_trial(gale_model *m, gale_object *const *inputs, gale_device *const *devices, int n,
    const gale__place_told *told, double *times_us, int *chosen)
{
    double *times = gale__calloc((size_t)n, sizeof *times);
    int best = 0;
    if (!times) return GALE_NO_MEMORY;
    for (int i = 0; i < n; i++) times[i] = -1;
    gale_status status = n > 1 ? gale__place_try(m, inputs, devices, n, told, times, &best) : GALE_OK;
    for (int i = 0; i < n && status == GALE_OK; i++) times_us[i] = times[i];
    if (status == GALE_OK) *chosen = best;
    gale__free(times);
    return status;
}

gale_status gale__place(gale_model *m, gale_object *const *inputs, gale_device *const *devices, int n,
    const gale__place_told *told, double *times_us, int *chosen)
{
    if (n < 1) return gale__fail(GALE_INVALID, "gale_model_place: n is %d; at least one device is needed", n);
    for (int i = 0; i < n; i++)
        if (!devices[i]) return gale__fail(GALE_INVALID, "gale_model_place: devices[%d] is NULL", i);
    gale_status status = gale_model_forecast(m, inputs, devices, n, times_us);
    if (status == GALE_UNSUPPORTED) {
        gale__log(GALE__INFO, "%s", gale_error());
        gale__error_clear();
        return choose_by_trial(m, inputs, devices, n, told, times_us, chosen);
    }
    GALE_TRY(status);
    *chosen = best_of(devices, times_us, n);
    gale__place_log(devices, times_us, n, *chosen, "is predicted to take");
    return GALE_OK;
}

gale_status gale_model_place(
    gale_model *m, gale_object *const *inputs, gale_device *const *devices, int n, double *times_us, int *chosen)
{
    GALE__NEED({"model", m}, {"devices", devices}, {"times_us", times_us}, {"chosen", chosen});
    GALE__WITHIN(gale__onnx_model_session(m)->device->context);
    return gale__place(m, inputs, devices, n, NULL, times_us, chosen);
}

void gale__place_note(const gale_device *device, const char *what, double predicted_us, double took_us)
{
    char name[48], took[32], predicted[32];
    if (!(predicted_us > 0 && took_us > 0)) return;
    gale__log(GALE__INFO, "%s: %s took %s; predicted: %s", name_of(device, name), what, time_of(took_us, took),
        time_of(predicted_us, predicted));
}
