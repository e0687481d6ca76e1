/* The graphs of a model that is explained. */
#ifndef GALE_JOBS_MODEL_EXPLAIN_GRAPH_H
#define GALE_JOBS_MODEL_EXPLAIN_GRAPH_H
#include "gale/model_jobs.h"
#include "jobs/job.h"
#include "onnx/import/net.h"

/* The nodes of the net and of the graphs inside of it. */
gale_status gale__explain_graphs(gale__onnx_net *net, gale_explain_result *result);
#endif
