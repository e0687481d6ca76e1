/* Jobs about this machine: what their results say, and that they end in order when cancelled or without memory. */
#include "gale/machine.h"
#include "job_suite.h"

static const gale_provider_state *find(const gale_devices_result *r, const char *name)
{
    for (size_t i = 0; i < r->n_providers; i++)
        if (!strcmp(r->providers[i].name, name)) return &r->providers[i];
    return NULL;
}

TEST(devices)
{
    gale_devices_result *r = NULL;
    char *text = NULL;
    if (!CHECK_OK(gale_devices_list(NULL, &r))) return;
    CHECK_TEXT(r->version, gale_version());
    const gale_provider_state *cpu = find(r, "cpu");
    if (CHECK(cpu && cpu->device)) {
        CHECK_TEXT(cpu->backend, "cpu");
        CHECK(cpu->device->caps.host_functions && cpu->device->caps.holds_data);
    }
    CHECK(r->automatic && r->n_devices > 0);
    int chosen = 0;
    for (size_t i = 0; i < r->n_providers; i++) {
        const gale_provider_state *p = &r->providers[i];
        chosen += p->chosen;
        CHECK(p->device || *p->reason);
    }
    CHECK(chosen >= 1);
    for (size_t i = 0; i < r->n_devices; i++) {
        CHECK(r->devices[i].info.caps.holds_data);
        CHECK(r->devices[i].has_driver == !r->devices[i].info.caps.host_functions);
    }
    CHECK_JSON(gale_devices_result_json(r, &text), text, "\"providers\": [", "\"name\": \"cpu\"", "\"ceilings\": {");
    gale_devices_result_destroy(&r);
    CHECK(!r);
    gale_devices_result_destroy(&r);
    gale_devices_result_destroy(NULL);
}

TEST(features)
{
    gale_device_caps caps = {.f16 = true, .capture = true};
    CHECK_TEXT(gale_device_feature(&caps, 0), "f16");
    CHECK_TEXT(gale_device_feature(&caps, 1), "capture");
    CHECK(!gale_device_feature(&caps, 2));
}

TEST(doctor)
{
    gale_doctor_result *r = NULL;
    char *text = NULL;
    bool cpu = false, cache = false;
    if (!CHECK_OK(gale_doctor_examine(NULL, &r))) return;
    for (size_t i = 0; i < r->n_items; i++) {
        const gale_doctor_item *item = &r->items[i];
        cpu |= item->kind == GALE_DOCTOR_PROVIDER && !strcmp(item->name, "cpu") && item->state == GALE_DOCTOR_OK;
        cache |= item->kind == GALE_DOCTOR_CACHE;
        CHECK(*item->text);
        if (item->kind == GALE_DOCTOR_PROVIDER && item->state == GALE_DOCTOR_MISSING) CHECK(item->n_advice > 0);
    }
    CHECK(cpu && cache);
    CHECK_JSON(gale_doctor_result_json(r, &text), text, "\"kind\": \"provider\"", "\"state\": \"ok\"", "\"advice\": [");
    gale_doctor_result_destroy(&r);
    gale_doctor_result_destroy(NULL);
}

static void count_step(void *user, const gale_trial_step *step)
{
    CHECK(*step->name);
    ++*(size_t *)user;
}

TEST(trial)
{
    gale_trial_result *r = NULL;
    char *text = NULL;
    size_t seen = 0;
    CHECK_FAILS(gale_doctor_try("nonesuch", NULL, &r), INVALID);
    CHECK_FAILS(gale_doctor_try(NULL, NULL, &r), INVALID);
    CHECK_FAILS(gale_doctor_try("cpu", NULL, NULL), INVALID);
    gale_status status = gale_doctor_try("cpu", &(gale_trial_options){.step = count_step, .user = &seen}, &r);
    if (status == GALE_NOT_FOUND) SKIP("no gale program beside this one");
    if (!CHECK_OK(status)) return;
    CHECK(r->passed && r->n_steps == seen && seen > 2 && r->steps[0].ok);
    CHECK_JSON(gale_trial_result_json(r, &text), text, "\"passed\": true", "\"ok\": true");
    gale_trial_result_destroy(&r);
    gale_trial_result_destroy(NULL);
}

TEST(usage)
{
    gale_usage_result *r = NULL;
    char *text = NULL;
    if (!CHECK_OK(gale_usage_read(NULL, &(gale_usage_options){.seconds = 0.01}, &r))) return;
    if (CHECK(r->n_devices > 0)) {
        const gale_usage *last = &r->devices[r->n_devices - 1];
        CHECK_TEXT(last->device, "cpu:0");
        CHECK(last->memory_bytes > last->memory_used_bytes && last->memory_used_bytes > 0);
    }
    CHECK_JSON(gale_usage_result_json(r, &text), text, "\"device\": \"cpu:0\"", "\"busy_percent\": ");
    gale_usage_result_destroy(&r);
    gale_usage_result_destroy(NULL);
    gale_usage_meter *meter = NULL;
    CHECK_FAILS(gale_usage_meter_open(NULL), INVALID);
    if (CHECK_OK(gale_usage_meter_open(&meter)))
        for (int i = 0; i < 2; i++) {
            CHECK_OK(gale_usage_read(meter, &(gale_usage_options){.seconds = 1e-6}, &r));
            gale_usage_result_destroy(&r);
        }
    gale_usage_meter_close(&meter);
    gale_usage_meter_close(&meter);
    gale_usage_meter_close(NULL);
    CHECK_FAILS(gale_usage_read(NULL, NULL, NULL), INVALID);
    CHECK_FAILS(gale_usage_read(NULL, &(gale_usage_options){.seconds = -1}, &r), INVALID);
}

TEST(cancelled)
{
    int stop = 1;
    gale_devices_result *devices = NULL;
    gale_doctor_result *doctor = NULL;
    gale_usage_result *usage = NULL;
    gale_job_control now = {.cancel = &stop};
    job_counter counter = {.until = 2};
    CHECK_FAILS(gale_devices_list(&(gale_devices_options){.control = now}, &devices), CANCELLED);
    CHECK_FAILS(gale_doctor_examine(&(gale_doctor_options){.control = now}, &doctor), CANCELLED);
    CHECK_FAILS(gale_usage_read(NULL, &(gale_usage_options){.control = now}, &usage), CANCELLED);
    now = (gale_job_control){.progress = job_count, .user = &counter};
    CHECK_FAILS(gale_devices_list(&(gale_devices_options){.control = now}, &devices), CANCELLED);
    counter.calls = 0;
    CHECK_FAILS(gale_doctor_examine(&(gale_doctor_options){.control = now}, &doctor), CANCELLED);
    CHECK_FAILS(gale_devices_list(NULL, NULL), INVALID);
    CHECK_FAILS(gale_doctor_examine(NULL, NULL), INVALID);
    counter = (job_counter){0};
    if (CHECK_OK(gale_devices_list(&(gale_devices_options){.control = now}, &devices)))
        CHECK(counter.total && counter.done == counter.total);
    if (CHECK_OK(gale_doctor_examine(&(gale_doctor_options){.control = now}, &doctor)))
        CHECK(counter.total && counter.done == counter.total);
    gale_devices_result_destroy(&devices);
    gale_doctor_result_destroy(&doctor);
}

TEST(one_device_is_measured)
{
    gale_device *device = NULL;
    CHECK_FAILS(gale_device_measure(NULL), INVALID);
    if (CHECK_OK(gale_device_open(&(gale_device_options){.chain = "cpu"}, &device)) &&
        CHECK_OK(gale_device_measure(device))) {
        const gale_device_ceilings *c = &gale_device_get_info(device)->ceilings;
        CHECK(c->copy_gbps > 0 && c->upload_gbps > 0 && c->f32_gflops > 0 && c->launch_us > 0);
    }
    gale_device_close(&device);
}

static gale_status devices_once(void)
{
    gale_devices_result *r = NULL;
    char *text = NULL;
    gale_status status = gale_devices_list(NULL, &r);
    if (status == GALE_OK) status = gale_devices_result_json(r, &text);
    gale_free(text);
    gale_devices_result_destroy(&r);
    return status;
}
static gale_status doctor_once(void)
{
    gale_doctor_result *r = NULL;
    char *text = NULL;
    gale_status status = gale_doctor_examine(NULL, &r);
    if (status == GALE_OK) status = gale_doctor_result_json(r, &text);
    gale_free(text);
    gale_doctor_result_destroy(&r);
    return status;
}
static gale_status usage_once(void)
{
    gale_usage_result *r = NULL;
    char *text = NULL;
    gale_status status = gale_usage_read(NULL, &(gale_usage_options){.seconds = 1e-6}, &r);
    if (status == GALE_OK) status = gale_usage_result_json(r, &text);
    gale_free(text);
    gale_usage_result_destroy(&r);
    return status;
}
/* Some failures only leave something out, such as ceilings that cannot be read. */
TEST(devices_faults) { job_faults(NULL, devices_once, 1000000, true); }
TEST(doctor_faults) { job_faults(NULL, doctor_once, 1000000, true); }
TEST(usage_faults) { job_faults(NULL, usage_once, 1000000, true); }

static const test_row rows[] = {ROW(devices), ROW(features), ROW(doctor), ROW(trial), ROW(usage), ROW(cancelled),
    ROW(one_device_is_measured), ROW(devices_faults), ROW(doctor_faults), ROW(usage_faults)};

int main(int argc, char **argv) { return test_main(rows, sizeof rows / sizeof *rows, argc, argv); }
