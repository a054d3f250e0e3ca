/* SPDX-License-Identifier: MIT */
/* The nodes of plans: the id of a plan, and what its execution measured of each node. */
#include "hooks.h"

#include <executor/executor.h>
#include <executor/instrument.h>
#include <nodes/nodeFuncs.h>
#include <nodes/plannodes.h>
#include <utils/rel.h>

#include "events.h"

/* An argument of a walk over the nodes. */
struct node_walk {
	int parent;			/* the node above, or -1 */
	uint64 query_id, plan_id;
	uint64 *hash;
};

/* A multiplicative hash of a number. */
static void mix(uint64 *hash, uint64 value)
{
	*hash = (*hash ^ value) * UINT64CONST(0x9e3779b97f4a7c15);
	*hash ^= *hash >> 32;
}

static Relation relation_of(PlanState *state)
{
	if (nodeTag(state) > T_ScanState && nodeTag(state) <= T_CustomScanState)
		return ((ScanState *)state)->ss_currentRelation;
	return NULL;
}

/* The index of a scan, or the kind of a join, a write or an aggregate. */
static uint64 variant_of(const Plan *plan)
{
	switch (nodeTag(plan)) {
	case T_IndexScan:
		return ((const IndexScan *)plan)->indexid;
	case T_IndexOnlyScan:
		return ((const IndexOnlyScan *)plan)->indexid;
	case T_BitmapIndexScan:
		return ((const BitmapIndexScan *)plan)->indexid;
	case T_NestLoop:
	case T_MergeJoin:
	case T_HashJoin:
		return (uint64)((const Join *)plan)->jointype;
	case T_ModifyTable:
		return (uint64)((const ModifyTable *)plan)->operation;
	case T_Agg:
		return (uint64)((const Agg *)plan)->aggstrategy;
	default:
		return 0;
	}
}

static bool mix_node(PlanState *state, struct node_walk *walk)
{
	struct node_walk inner = { .parent = state->plan->plan_node_id, .hash = walk->hash };
	Relation relation = relation_of(state);

	mix(walk->hash, (uint64)walk->parent);
	mix(walk->hash, nodeTag(state->plan));
	mix(walk->hash, relation ? RelationGetRelid(relation) : InvalidOid);
	mix(walk->hash, variant_of(state->plan));
	return planstate_tree_walker(state, mix_node, &inner);
}

/* The id covers the nodes, relations, indexes and kinds of joins, but no costs or values. */
uint64 ringpipe_plan_id(PlanState *state)
{
	uint64 hash = UINT64CONST(0xcbf29ce484222325);
	struct node_walk walk = { .parent = -1, .hash = &hash };

	(void)mix_node(state, &walk);
	return hash;
}

static const char *kind_of(const Plan *plan)
{
#define KIND(name) [T_##name] = #name
	static const char *const kinds[] = {
		KIND(Result), KIND(ProjectSet), KIND(ModifyTable), KIND(Append), KIND(MergeAppend),
		KIND(RecursiveUnion), KIND(BitmapAnd), KIND(BitmapOr), KIND(SeqScan),
		KIND(SampleScan), KIND(IndexScan), KIND(IndexOnlyScan), KIND(BitmapIndexScan),
		KIND(BitmapHeapScan), KIND(TidScan), KIND(TidRangeScan), KIND(SubqueryScan),
		KIND(FunctionScan), KIND(ValuesScan), KIND(TableFuncScan), KIND(CteScan),
		KIND(NamedTuplestoreScan), KIND(WorkTableScan), KIND(ForeignScan), KIND(CustomScan),
		KIND(NestLoop), KIND(MergeJoin), KIND(HashJoin), KIND(Material), KIND(Memoize),
		KIND(Sort), KIND(IncrementalSort), KIND(Group), KIND(Agg), KIND(WindowAgg),
		KIND(Unique), KIND(Gather), KIND(GatherMerge), KIND(Hash), KIND(SetOp),
		KIND(LockRows), KIND(Limit),
	};
#undef KIND
	const size_t tag = nodeTag(plan);

	return tag < lengthof(kinds) && kinds[tag] ? kinds[tag] : "unknown";
}

static bool write_node(PlanState *state, struct node_walk *walk)
{
	struct node_walk inner = *walk;
	Instrumentation *measured = state->instrument;
	Relation scanned = relation_of(state);
	const char *relation = scanned ? RelationGetRelationName(scanned) : "";
	const char *kind = kind_of(state->plan);

	inner.parent = state->plan->plan_node_id;
	if (measured) {
		const BufferUsage *buffers = &measured->bufusage;

		InstrEndLoop(measured);
		postgresql_nodes_node(walk->query_id, walk->plan_id, inner.parent, walk->parent,
				      kind, relation, measured->ntuples, measured->nloops,
				      (uint64_t)(measured->startup * 1e9),
				      (uint64_t)(measured->total * 1e9),
				      measured->nfiltered1 + measured->nfiltered2,
				      state->plan->plan_rows, buffers->shared_blks_hit,
				      buffers->shared_blks_read, buffers->shared_blks_dirtied,
				      buffers->temp_blks_read, buffers->temp_blks_written,
				      measured->walusage.wal_records, measured->walusage.wal_bytes);
	}
	return planstate_tree_walker(state, write_node, &inner);
}

void ringpipe_nodes_write(QueryDesc *query, uint64 plan_id)
{
	struct node_walk walk = {
		.query_id = query->plannedstmt->queryId, .plan_id = plan_id, .parent = -1,
	};

	(void)write_node(query->planstate, &walk);
}
