/* Maps and borrowed tensors by the names they get in base and graph. */
#include "base/file.h"
#include "graph/tensor.h"
#define gale__map gale__file_map
#define gale__map_open gale__file_map_open
#define gale__map_close gale__file_map_close
#define gale__map_read gale__pb_map_read
#define gale__tensor_borrow(t, r, d, p, rel, o, out) ((rel)(o), gale_tensor_from_cpu(NULL, t, r, d, p, out))
#define gale__tensor_mapped(t) ((void)(t), false)
#define gale__tensor_borrow_map gale__pb_borrow_map
gale_status gale__pb_map_read(const gale__file_map *m, uint64_t offset, size_t size, void *to);
gale_status gale__pb_borrow_map(gale_type type, int rank, const int64_t *dims, const gale__file_map *map, uint64_t offset, void (*release)(void *), void *owner, gale_tensor **out);
