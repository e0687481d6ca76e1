/* All of gale.  Each header may be included on its own too. */
#ifndef GALE_GALE_H
#define GALE_GALE_H

#include "base.h"
#include "context.h"
#include "device.h"
#include "dlpack.h"
#include "embed.h"
#include "exr.h"
#include "graph.h"
#include "job.h"
#include "machine.h"
#include "model.h"
#include "model_jobs.h"
#include "picture.h"
#include "profile.h"
#include "search.h"
#include "selftest.h"
#include "text.h"
#include "upscale.h"

#endif
