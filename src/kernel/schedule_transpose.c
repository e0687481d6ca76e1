#include "kernel/schedule_emit.h"
bool gale__choose_transpose(const gale__nest *nest, const gale_device_caps *caps, gale__schedule *s) { (void)nest; (void)caps; (void)s; return false; }
gale_status gale__build_transpose(const gale__nest *nest, const gale__schedule *s, gale__ir *ir) { (void)nest; (void)s; (void)ir; return GALE_INTERNAL; }
