/* SPDX-License-Identifier: MIT */
/* The nodes of plans: the id of a plan, and what its execution measured of each node. */
#include "hooks.h"

#include <executor/executor.h>
#include <executor/instrument.h>
#include <nodes/nodeFuncs.h>
#include <nodes/plannodes.h>
#include <parser/parsetree.h>
#include <utils/rel.h>

#include "events.h"

/* FNV-1a over a number. */
static uint64 mix(uint64 hash, uint64 value)
{
	for (int i = 0; i < 64; i += 8)
		hash = (hash ^ (value >> i & 0xff)) * UINT64CONST(0x100000001b3);
	return hash;
}

static uint64 mix_plan(uint64 hash, const Plan *plan, const List *relations);

static uint64 mix_plans(uint64 hash, const List *plans, const List *relations)
{
	ListCell *cell;

	foreach(cell, plans)
		hash = mix_plan(hash, lfirst(cell), relations);
	return hash;
}

static uint64 mix_scan(uint64 hash, const Scan *scan, const List *relations)
{
	if (scan->scanrelid > 0)
		hash = mix(hash, rt_fetch(scan->scanrelid, relations)->relid);
	switch (nodeTag(scan)) {
	case T_IndexScan:
		return mix(hash, ((const IndexScan *)scan)->indexid);
	case T_IndexOnlyScan:
		return mix(hash, ((const IndexOnlyScan *)scan)->indexid);
	case T_BitmapIndexScan:
		return mix(hash, ((const BitmapIndexScan *)scan)->indexid);
	case T_SubqueryScan:
		return mix_plan(hash, ((const SubqueryScan *)scan)->subplan, relations);
	case T_CustomScan:
		return mix_plans(hash, ((const CustomScan *)scan)->custom_plans, relations);
	default:
		return hash;
	}
}

/* Mixes in a plan: its nodes, relations, indexes and kinds of joins, but no costs or values. */
static uint64 mix_plan(uint64 hash, const Plan *plan, const List *relations)
{
	if (!plan)
		return mix(hash, 0);
	hash = mix(hash, nodeTag(plan));
	if (nodeTag(plan) > T_Scan && nodeTag(plan) <= T_CustomScan)
		hash = mix_scan(hash, (const Scan *)plan, relations);
	switch (nodeTag(plan)) {
	case T_NestLoop:
	case T_MergeJoin:
	case T_HashJoin:
		hash = mix(hash, ((const Join *)plan)->jointype);
		break;
	case T_Agg:
		hash = mix(hash, ((const Agg *)plan)->aggstrategy);
		break;
	case T_ModifyTable:
		hash = mix(hash, ((const ModifyTable *)plan)->operation);
		break;
	case T_Append:
		hash = mix_plans(hash, ((const Append *)plan)->appendplans, relations);
		break;
	case T_MergeAppend:
		hash = mix_plans(hash, ((const MergeAppend *)plan)->mergeplans, relations);
		break;
	case T_BitmapAnd:
		hash = mix_plans(hash, ((const BitmapAnd *)plan)->bitmapplans, relations);
		break;
	case T_BitmapOr:
		hash = mix_plans(hash, ((const BitmapOr *)plan)->bitmapplans, relations);
		break;
	default:
		break;
	}
	return mix_plan(mix_plan(hash, plan->lefttree, relations), plan->righttree, relations);
}

uint64 ringpipe_plan_id(const PlannedStmt *statement)
{
	uint64 hash = UINT64CONST(0xcbf29ce484222325);

	hash = mix_plan(hash, statement->planTree, statement->rtable);
	return mix_plans(hash, statement->subplans, statement->rtable);
}

static const char *kind_of(const Plan *plan)
{
	static const struct {
		NodeTag tag;
		const char *name;
	} kinds[] = {
		{ T_Result, "Result" }, { T_ProjectSet, "ProjectSet" },
		{ T_ModifyTable, "ModifyTable" }, { T_Append, "Append" },
		{ T_MergeAppend, "MergeAppend" }, { T_RecursiveUnion, "RecursiveUnion" },
		{ T_BitmapAnd, "BitmapAnd" }, { T_BitmapOr, "BitmapOr" },
		{ T_SeqScan, "SeqScan" }, { T_SampleScan, "SampleScan" },
		{ T_IndexScan, "IndexScan" }, { T_IndexOnlyScan, "IndexOnlyScan" },
		{ T_BitmapIndexScan, "BitmapIndexScan" },
		{ T_BitmapHeapScan, "BitmapHeapScan" }, { T_TidScan, "TidScan" },
		{ T_TidRangeScan, "TidRangeScan" }, { T_SubqueryScan, "SubqueryScan" },
		{ T_FunctionScan, "FunctionScan" }, { T_ValuesScan, "ValuesScan" },
		{ T_TableFuncScan, "TableFuncScan" }, { T_CteScan, "CteScan" },
		{ T_NamedTuplestoreScan, "NamedTuplestoreScan" },
		{ T_WorkTableScan, "WorkTableScan" }, { T_ForeignScan, "ForeignScan" },
		{ T_CustomScan, "CustomScan" }, { T_NestLoop, "NestLoop" },
		{ T_MergeJoin, "MergeJoin" }, { T_HashJoin, "HashJoin" },
		{ T_Material, "Material" }, { T_Memoize, "Memoize" }, { T_Sort, "Sort" },
		{ T_IncrementalSort, "IncrementalSort" }, { T_Group, "Group" },
		{ T_Agg, "Agg" }, { T_WindowAgg, "WindowAgg" }, { T_Unique, "Unique" },
		{ T_Gather, "Gather" }, { T_GatherMerge, "GatherMerge" }, { T_Hash, "Hash" },
		{ T_SetOp, "SetOp" }, { T_LockRows, "LockRows" }, { T_Limit, "Limit" },
	};

	for (size_t i = 0; i < lengthof(kinds); i++)
		if (kinds[i].tag == nodeTag(plan))
			return kinds[i].name;
	return "unknown";
}

/* An argument of the walk: the query, and the node above. */
struct node_walk {
	uint64 query_id, plan_id;
	int parent;
};

static const char *relation_of(PlanState *state)
{
	Relation relation = NULL;

	if (nodeTag(state) > T_ScanState && nodeTag(state) <= T_CustomScanState)
		relation = ((ScanState *)state)->ss_currentRelation;
	return relation ? RelationGetRelationName(relation) : "";
}

static bool write_node(PlanState *state, struct node_walk *walk)
{
	struct node_walk inner = *walk;
	Instrumentation *measured = state->instrument;
	const char *relation = relation_of(state), *kind = kind_of(state->plan);

	inner.parent = state->plan->plan_node_id;
	if (measured) {
		const BufferUsage *buffers = &measured->bufusage;

		InstrEndLoop(measured);
		postgresql_nodes_node(walk->query_id, walk->plan_id, inner.parent, walk->parent,
				      kind, relation, measured->ntuples, measured->nloops,
				      (uint64_t)(measured->startup * 1e9),
				      (uint64_t)(measured->total * 1e9),
				      measured->nfiltered1 + measured->nfiltered2,
				      state->plan->plan_rows, (uint64_t)buffers->shared_blks_hit,
				      (uint64_t)buffers->shared_blks_read,
				      (uint64_t)buffers->shared_blks_dirtied,
				      (uint64_t)buffers->temp_blks_read,
				      (uint64_t)buffers->temp_blks_written,
				      (uint64_t)measured->walusage.wal_records,
				      measured->walusage.wal_bytes);
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
