/* The report of gale_embed_files as JSON. */
#include "base/json.h"
#include "gale/embed.h"

gale_status gale_embed_report_json(
    const gale_embedder *e, const gale_embed_options *options, const gale_embed_report *r, char **text)
{
    GALE__NEED({"embedder", e}, {"options", options}, {"report", r}, {"text", text});
    GALE__OPTIONS(options);
    gale_embedder_info info;
    gale__str out = {0};
    gale__json_out json;
    gale_embedder_get_info(e, &info);
    gale__json_begin(&json, &out);
    gale__json_object(&json);
#define FIELD(name, kind, value) (gale__json_key(&json, name), gale__json_##kind(&json, value))
    FIELD("output", string, options->output ? options->output : "-");
    FIELD("model", string, info.model);
    FIELD("provider", string, gale_device_get_info(gale_embedder_device(e))->backend);
    FIELD("pooling", string, gale_pooling_name(info.pooling));
    FIELD("dims", i64, info.dims);
    FIELD("texts", i64, (int64_t)r->texts);
    FIELD("resumed", i64, (int64_t)r->resumed);
    FIELD("tokens", i64, (int64_t)r->tokens);
    FIELD("padding", i64, (int64_t)r->padding);
    FIELD("cached", i64, (int64_t)r->cached);
    FIELD("empty", i64, (int64_t)r->empty);
    FIELD("truncated", i64, (int64_t)r->truncated);
    FIELD("cut", i64, (int64_t)r->cut);
    FIELD("batches", i64, (int64_t)r->batches);
    FIELD("packed", bool, r->packed);
    FIELD("lanes", i64, r->lanes);
    gale__json_open(&json, "batches_by_device", '[');
    for (int i = 0; i < r->devices; i++) gale__json_i64(&json, (int64_t)r->batches_by_device[i]);
    gale__json_close(&json, ']');
    FIELD("bytes", i64, (int64_t)r->bytes);
    FIELD("seconds", f64, r->seconds);
    FIELD("read_seconds", f64, r->read_s);
    FIELD("tokenize_seconds", f64, r->tokenize_s);
    FIELD("compute_seconds", f64, r->compute_s);
    FIELD("write_seconds", f64, r->write_s);
    FIELD("texts_per_second", f64, r->seconds > 0 ? (double)(r->texts - r->resumed) / r->seconds : 0);
#undef FIELD
    gale__json_close(&json, '}');
    gale_status status = gale__str_check(&out);
    if (status == GALE_OK) *text = out.text;
    else gale__str_finish(&out);
    return status;
}
