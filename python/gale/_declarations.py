"""The functions of the library that this package calls, as the headers declare them.

The text is C: `_library.py` reads argument types from it, and a test compiles it behind the headers, so that a function that changes there fails here.
"""

DECLARATIONS = """
const char *gale_version(void);
const char *gale_status_text(gale_status status);
const char *gale_error(void);
void gale_free(void *p);
const char *gale_type_name(gale_type type);
gale_status gale_type_parse(const char *name, gale_type *type);
void gale_log_set(gale_log_sink *sink, void *user, int least_level);

gale_status gale_device_open(const gale_device_options *options, gale_device **out);
void gale_device_close(gale_device **device);
const gale_device_info *gale_device_get_info(const gale_device *device);
const char *gale_device_why(const gale_device *device);
void gale_memory_get_stats(const gale_device *device, gale_memory_stats *out);
gale_status gale_devices_list(const gale_devices_options *options, gale_devices_result **out);
gale_status gale_devices_result_json(const gale_devices_result *result, char **text);
void gale_devices_result_destroy(gale_devices_result **result);

gale_status gale_tensor_wrap(gale_type type, int rank, const int64_t *dims, void *data, gale_flags flags, void (*release)(void *owner), void *owner, gale_tensor **out);
gale_status gale_tensor_from_strings(int rank, const int64_t *dims, const char *const *strings, const size_t *sizes, gale_tensor **out);
gale_status gale_tensor_to_cpu(const gale_tensor *tensor, void *data, size_t size_bytes);
void gale_tensor_destroy(gale_tensor **tensor);
gale_type gale_tensor_type(const gale_tensor *tensor);
int gale_tensor_rank(const gale_tensor *tensor);
const int64_t *gale_tensor_dims(const gale_tensor *tensor);
size_t gale_tensor_size_bytes(const gale_tensor *tensor);
void *gale_tensor_data(gale_tensor *tensor);
const char *gale_tensor_string(const gale_tensor *tensor, int64_t index, size_t *size);

gale_status gale_object_none(gale_object **out);
gale_status gale_object_tensor(gale_tensor *tensor, gale_object **out);
gale_status gale_object_sequence(gale_object *const *items, size_t count, gale_object **out);
gale_status gale_object_map(gale_tensor *keys, gale_object *const *values, gale_object **out);
void gale_object_destroy(gale_object **object);
gale_object_kind gale_object_get_kind(const gale_object *object);
gale_tensor *gale_object_get_tensor(const gale_object *object);
size_t gale_object_count(const gale_object *object);
gale_object *gale_object_item(const gale_object *object, size_t index);

gale_status gale_model_open(const char *path, gale_device *device, const gale_model_options *options, gale_model **out);
gale_status gale_model_from_memory(const void *data, size_t size, gale_flags flags, gale_device *device, const gale_model_options *options, gale_model **out);
void gale_model_close(gale_model **model);
int gale_model_inputs(const gale_model *model);
int gale_model_outputs(const gale_model *model);
int gale_model_defaults(const gale_model *model);
gale_status gale_model_input(const gale_model *model, int index, gale_model_value *out);
gale_status gale_model_output(const gale_model *model, int index, gale_model_value *out);
gale_status gale_model_default(const gale_model *model, int index, gale_model_value *out);
gale_status gale_model_run(gale_model *model, gale_object *const *inputs, gale_object **outputs, gale_flags flags);
gale_status gale_model_run_named(gale_model *model, const char *const *input_names, gale_tensor *const *inputs, int n_inputs, const char *const *output_names, gale_tensor **outputs, int n_outputs, gale_flags flags);
gale_status gale_model_report(gale_model *model, gale_flags flags, char **text);

gale_status gale_model_verify(const char *path, gale_device *device, const gale_verify_options *options, gale_verify_result **out);
gale_status gale_verify_result_json(const gale_verify_result *result, char **text);
void gale_verify_result_destroy(gale_verify_result **result);
gale_status gale_model_inspect(const char *path, const gale_inspect_options *options, gale_inspect_result **out);
gale_status gale_inspect_result_json(const gale_inspect_result *result, char **text);
void gale_inspect_result_destroy(gale_inspect_result **result);

gale_status gale_picture_create(int64_t width, int64_t height, int channels, gale_type type, gale_picture **out);
void gale_picture_destroy(gale_picture **picture);
gale_status gale_picture_read(const char *path, const gale_picture_read_options *options, gale_picture **out);
gale_status gale_picture_write(const gale_picture *picture, const char *path, const gale_picture_write_options *options);
gale_status gale_upscaler_open(const char *model_path, gale_device *device, const gale_model_options *options, gale_upscaler **out);
void gale_upscaler_close(gale_upscaler **upscaler);
void gale_upscaler_get_info(const gale_upscaler *upscaler, gale_upscaler_info *out);
gale_status gale_upscaler_set(gale_upscaler *upscaler, const char *setting);
gale_status gale_upscale(gale_upscaler *upscaler, const gale_picture *in, const gale_upscale_options *options, gale_upscale_report *report, gale_picture **out);

gale_status gale_embedder_open(const char *path, gale_device *device, const gale_embedder_options *options, gale_embedder **out);
void gale_embedder_close(gale_embedder **embedder);
void gale_embedder_get_info(const gale_embedder *embedder, gale_embedder_info *out);
gale_status gale_embed(gale_embedder *embedder, const char *const *texts, const size_t *sizes, size_t count, float *vectors);
const char *gale_pooling_name(gale_pooling pooling);
gale_status gale_index_open(const char *path, const gale_index_options *options, gale_index **out);
void gale_index_close(gale_index **index);
void gale_index_get_info(const gale_index *index, gale_index_info *out);
gale_status gale_index_search(gale_index *index, const float *queries, size_t count, int64_t k, const uint8_t *allowed, gale_hit *hits);
gale_status gale_index_build(gale_index *index, const gale_index_build_options *options, gale_index_build_report *report);
gale_status gale_index_set_probes(gale_index *index, int64_t probes);
gale_status gale_index_vector(gale_index *index, int64_t row, float *out);
const char *gale_vector_type_name(gale_vector_type type);

gale_status gale_exr_open(const char *path, const gale_exr_limits *limits, gale_exr **out);
void gale_exr_close(gale_exr **file);
int gale_exr_part_count(const gale_exr *file);
const gale_exr_part *gale_exr_part_get(const gale_exr *file, int part);
gale_status gale_exr_level_size(const gale_exr *file, int part, int level_x, int level_y, int64_t *width, int64_t *height);
gale_status gale_exr_channel_size(const gale_exr *file, int part, int level_x, int level_y, const char *channel, int64_t *width, int64_t *height);
gale_status gale_exr_read(gale_exr *file, int part, int level_x, int level_y, const gale_exr_target *targets, int count);
const char *gale_exr_tone_name(int tone);
gale_status gale_exr_viewer_create(gale_device *device, const gale_exr_look *look, gale_exr_viewer **out);
void gale_exr_viewer_destroy(gale_exr_viewer **viewer);
gale_status gale_exr_viewer_run(gale_exr_viewer *viewer, gale_exr *file, gale_exr_report *report, gale_picture **out);
gale_status gale_exr_write(const char *path, const gale_exr_new_part *parts, int count);
"""
