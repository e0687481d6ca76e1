/* Every operator case through the scalar reference, against the values found independently; and what operators refuse.
 */
#include "refused.h"
#include "test.h"
#include "ops/cases/cases.h"

/* Whether the reference gives what the case expects. */
static bool check_outputs(gale__case_run *run, const gale__case_value *got)
{
    bool ok = true;
    for (int i = 0; i < run->n_out; i++) {
        const gale__case_value *want = &run->out[i];
        char text[200] = "";
        if (want->absent) continue;
        bool shape = got[i].rank == want->rank && !memcmp(got[i].dims, want->dims, want->rank * sizeof *want->dims);
        bool same =
            got[i].type == want->type && shape &&
            gale__case_equal(want->type, want->elements, got[i].data, want->data, run->tolerance, text, sizeof text);
        if (same) continue;
        printf("FAIL %s: output %d %s: %s, rank %d\n", run->name, i, *text ? text : "has another type or shape",
            gale_type_name(got[i].type), got[i].rank);
        ok = false;
    }
    return ok;
}

TEST(cases)
{
    int bad = 0;
    for (int c = 0; c < gale__cases_count; c++)
        for (int v = 0; v < gale__case_variants(&gale__cases[c]); v++) {
            gale__case_run run;
            gale__case_value got[GALE__CASE_VALUES];
            if (!CHECK_OK(gale__case_open(&gale__cases[c], v, &run))) continue;
            gale_status status = gale__case_reference(&run, got);
            if (status != GALE_OK) printf("FAIL %s: %s\n", run.name, gale_error());
            bad += status != GALE_OK || !check_outputs(&run, got);
            gale__case_close(&run);
        }
    CHECK_EQ(bad, 0);
    CHECK_EQ(gale__alloc_live(), 0);
}

/* An operator without a case would be one nobody has seen work. */
TEST(every_operator_has_cases)
{
    for (int i = 0; i < gale__ops_count; i++) {
        int expected = 0, all = 0;
        for (int c = 0; c < gale__cases_count; c++) {
            if (strcmp(gale__cases[c].op, gale__ops_table[i]->name)) continue;
            all++;
            expected += *gale__cases[c].expected != 0;
        }
        bool random = strstr(gale__ops_table[i]->name, "Random") || !strcmp(gale__ops_table[i]->name, "Bernoulli");
        if (!CHECK(all > 0) || !CHECK(random || expected > 0))
            printf("  %s has %d cases, %d with expected values\n", gale__ops_table[i]->name, all, expected);
        CHECK(gale__ops_table[i]->doc && *gale__ops_table[i]->doc);
        CHECK(gale__op_find(gale__ops_table[i]->name) == gale__ops_table[i]);
    }
}

TEST(names_that_no_operator_has) { CHECK(!gale__op_find("") && !gale__op_find("relu") && !gale__op_find("Relu6 ")); }

TEST(bad_input_is_refused)
{
    refused("Add", "", "T[2] 1 2; T[3] 1 2 3", "cannot be broadcast together");
    refused("Add", "", "T[2] 1 2; i32[2] 1 2", "i32");
    refused("LRN", "size=1", "i32[1,2] 1 2", "POW is not defined for i32");
    refused("Reshape", "", "T[4] ~1; !i64[2] 3 -1", "elements");
    refused("Reshape", "", "T[4] ~1; i64[1] 4", "known when planning");
    refused("Reshape", "", "T[4] ~1; !i64[3] -1 -1 2", "extent");
    refused("Concat", "axis=3", "T[2] 1 2; T[2] 1 2", "axis 3");
    refused("Conv", "", "T[1,2,4,4] ~1; T[1,3,3,3] ~2", "kernel");
    refused("Conv", "strides=0,0", "T[1,1,4,4] ~1; T[1,1,3,3] ~2", "at least 1");
    refused("Conv", "", "T[1,1,2,2] ~1; T[1,1,3,3] ~2", "exceeds axis 2");
    refused("MatMul", "", "T[2,3] ~1; T[2,3] ~2", "matmul");
    refused("Einsum", "equation=ij,jk,k", "T[2,3] ~1; T[3,2] ~2", "unexpected text");
    refused("Einsum", "equation=ijk->i", "T[2,3] ~1", "Einsum");
    refused("TopK", "", "T[3] ~1; !i64[1] 5", "k is 5");
    refused("Attention", "", "T[1,2,4] ~1; T[1,2,4] ~2; T[1,2,4] ~3", "q_num_heads");
    refused("Attention", "softmax_precision=7", "T[1,1,2,4] ~1; T[1,1,2,4] ~2; T[1,1,2,4] ~3", "floats");
    refused("Attention", "", "T[1,3,2,4] ~1; T[1,2,2,4] ~2; T[1,2,2,4] ~3", "do not match");
    refused("Attention", "", "T[1,1,2,4] ~1; T[1,1,2,4] ~2; T[1,1,2,4] ~3; T[2,5] ~4", "exceeds the 2 keys");
    refused("FlexAttention", "score_mod={1:Add(0,#1)>1} prob_mod={0:>}", "T[1,1,2,4] ~1; T[1,1,2,4] ~2; T[1,1,2,4] ~3",
        "no input");
    refused("FlexAttention", "score_mod={1:ReduceSum(0)>1}", "T[1,1,2,4] ~1; T[1,1,2,4] ~2; T[1,1,2,4] ~3",
        "type or shape");
    refused("LSTM", "", "T[3,1,2] ~1; T[1,8,2] ~2; T[1,8,3] ~3", "input 1");
    refused("LSTM", "activations=Tanh,Sine,Tanh", "T[3,1,2] ~1; T[1,8,2] ~2; T[1,8,2] ~3", "Sine");
    refused("GRU", "direction=sideways", "T[3,1,2] ~1; T[1,6,2] ~2; T[1,6,2] ~3", "sideways");
    refused("Scan", "num_scan_inputs=1 body={2:Concat(0,1)>2}", "T[2] ~1; T[3,2] ~2", "changes its shape");
    refused("Scan", "num_scan_inputs=3 body={2:Add(0,1)>2}", "T[2] ~1; T[3,2] ~2", "scanned");
    refused("LinearAttention", "q_num_heads=3 kv_num_heads=2", "T[1,2,6] ~1; T[1,2,4] ~2; T[1,2,4] ~3", "share");
    refused("RotaryEmbedding", "num_heads=2", "T[1,2,8] ~1; T[1,2,3] ~2; T[1,2,3] ~3", "columns");
    refused("MSGroupQueryAttention", "num_heads=2 kv_num_heads=1",
        "T[1,2,16] ~1; T[1,2,8] ~2; T[1,2,8] ~3; -; -; i32[1] 1; i32[1] 2", "known when planning");
    refused("Cast", "to=banana", "T[3] ~1", "banana");
    refused("Cast", "to=14", "T[3] ~1", "14");
    refused("Softmax", "axis=2", "T[3] ~1", "axis 2");
    refused("Slice", "", "T[3] ~1; !i64[1] 0; !i64[1] 2; !i64[1] 0; !i64[1] 0", "step 0");
    refused("Resize", "mode=cubist", "T[1,1,2,2] ~1; -; !f32[4] 1 1 2 2", "cubist");
    refused("Split", "axis=0", "T[4] ~1; !i64[1] 3", "parts");
    refused("Pad", "mode=mirror", "T[4] ~1; !i64[2] 1 1", "mirror");
    refused("Pad", "", "T[2] 1 2; !i64[2] 9223372036854775807 9223372036854775807", "pads of");
    refused("Tile", "", "T[2] 1 2; !i64[1] 9223372036854775807", "invalid repeat");
    refused("Tile", "", "T[2] 1 2; !i64[1] -1", "invalid repeat -1");
    refused("MaxPool", "kernel_shape=2,2 strides=9223372036854775807,1", "T[1,1,2,2] ~1", "strides");
    refused("Resize", "", "T[1,1,1,1] 1; -; -; !i64[4] 1 1 4611686018427387904 4", "4611686018427387904");
    refused("Resize", "", "T[1,1,8,8] ~1; -; !f32[4] 1 1 1e30 1", "scale 1e+30");
    refused("Resize", "mode=cubic antialias=1", "T[1,1,8,8] ~1; -; -; !i64[4] 1 1 1000000000 1", "1000000000");
    refused("Resize", "axes=2,3 keep_aspect_ratio_policy=not_smaller", "T[1,1,1,8] ~1; -; -; !i64[2] 2000000000 8",
        "scale 2e+09");
    refused("Split", "axis=0", "T[4] ~1; !i64[1] 9223372036854775807", "but only 4 are left");
    refused("Reshape", "", "T[4] ~1; !i64[3] 4611686018427387904 4 -1", "extent");
    refused("Expand", "", "T[1] 1; !i64[2] 4611686018427387904 4", "too large");
    refused("DepthToSpace", "blocksize=1099511627776", "T[1,4,1,1] ~1", "blocks");
    refused("Gather", "", "T[0] ; i64[1] 0", "input is empty");
    refused("LeakyRelu", "alpha=high", "T[4] ~1", "wrong type");
    refused("Exp", "", "i32[4] ~1", "floats");
    refused("MatMulInteger", "", "u8[2,3] ~1; i8[2,3] ~2", "matmul");
    refused("Adam", "", "T[] 1; i64[] 1; T[2] ~1; T[2] ~2; T[2] ~3; T[2] ~4; T[2] ~5", "groups of 4");
    refused("NonMaxSuppressionPadded", "", "T[1,3,4] ~1; T[1,2,5] ~2; !i64[] 2", "boxes");
    refused("UniquePadded", "axis=2", "T[3] ~1", "axis 2");
    refused("LinearRegressor", "coefficients=0.5,1.5,2.5", "T[2,2] ~1", "coefficients");
    refused("LabelEncoder", "keys_int64s=1,2 values_int64s=3,", "i64[2] 1 2", "2 keys but 1 values");
    refused("SVMClassifier", "vectors_per_class=1,-5 coefficients=1.0,2.0 support_vectors=1.0,2.0 rho=0.5,",
        "T[2,2] ~1", "invalid number -5");
#define TREE                                                                                                 \
    "leaf_targetids=0,0 leaf_weights=1.5,2.5 nodes_featureids=0,0 nodes_splits=0.5,0.5 nodes_trueleafs=0,1 " \
    "nodes_falseleafs=1,0 nodes_truenodeids=1,0 "
    refused(
        "TreeEnsemble", TREE "nodes_modes=0,0 nodes_falsenodeids=0,0 tree_roots=0,", "T[2,2] ~1", "its own descendant");
    refused("TreeEnsemble", TREE "nodes_modes=0,0 nodes_falsenodeids=0,7 tree_roots=0,", "T[2,2] ~1", "missing node");
    refused("TreeEnsemble", TREE "nodes_modes=0,9 nodes_falsenodeids=0,0 tree_roots=0,", "T[2,2] ~1", "mode 9");
    refused("TreeEnsemble", TREE "nodes_modes=0,6 nodes_falsenodeids=0,0 tree_roots=0,", "T[2,2] ~1", "too few sets");
    refused("TreeEnsemble", TREE "nodes_modes=0,0 nodes_falsenodeids=0,0 tree_roots=5,", "T[2,2] ~1", "root 5");
    refused("TreeEnsemble", TREE "nodes_modes=0,0 nodes_falsenodeids=0,0 tree_roots=0, n_targets=0", "T[2,2] ~1",
        "0 targets");
    refused("TreeEnsemble", TREE "nodes_modes=0,0 nodes_falsenodeids=0,0 tree_roots=0,", "T[2,0] ~1", "feature 0 of 0");
    refused("TreeEnsembleRegressor",
        "nodes_treeids=0, nodes_nodeids=0, nodes_featureids=0, nodes_values=0.5, nodes_modes=BRANCH_SIDEWAYS "
        "nodes_truenodeids=0, nodes_falsenodeids=0,",
        "T[2,1] ~1", "BRANCH_SIDEWAYS");
    refused("MSMatMulNBits", "N=4 K=32 bits=5 block_size=16", "T[1,32] ~1; u8[4,2,8] ~1; T[4,2] ~2", "bits 5");
    refused("MSMatMulNBits", "N=4 K=64 bits=4 block_size=16", "T[1,64] ~1; u8[4,2,8] ~1; T[4,2] ~2", "elements");
    refused("MSQLinearAdd", "", "u8[2] 1 2; f32[] 1; u8[] 0; u8[2] 1 2; f32[] 1", "missing input 6");
    refused("MSQLinearConcat", "axis=0", "f32[] 1; u8[] 0; u8[2] 1 2; f32[] 1", "each part needs 3");
}

/* Lowering under failing allocations: a status, never a crash, and nothing left behind. */
TEST(no_memory)
{
    static const char *const names[] = {"Conv", "LayerNormalization", "Resize", "Einsum", "TopK", "Pad", "UniquePadded",
        "TreeEnsembleClassifier", "SVMClassifier", "LabelEncoder", "MSMatMulNBits"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int c = 0;
        while (strcmp(gale__cases[c].op, names[i])) c++;
        for (uint64_t n = 1; n < 5000; n++) {
            gale__case_run run;
            gale__node out[GALE__CASE_VALUES];
            gale__prim_graph g;
            if (!CHECK_OK(gale__case_open(&gale__cases[c], 0, &run))) return;
            gale__prim_init(&g);
            gale__alloc_fail_at(n);
            gale_status status = gale__case_lower(&run, &g, out);
            bool over = gale__alloc_count() < n;
            gale__alloc_fail_at(0);
            if (!over) CHECK_EQ(status, GALE_NO_MEMORY);
            gale__prim_finish(&g);
            gale__case_close(&run);
            if (!CHECK_EQ(gale__alloc_live(), 0) || over) break;
        }
    }
}

TESTS(ROW(cases), ROW(every_operator_has_cases), ROW(names_that_no_operator_has), ROW(bad_input_is_refused),
    ROW(no_memory))
