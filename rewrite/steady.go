package rewrite

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// unsteady are harmless functions that may give another answer when they are called a second time in a statement: volatile
// ones, and aggregates and window functions that depend on the order of their input (pg_proc of PostgreSQL 15 to 18;
// count, min, max, bool_and, bool_or and every do not). All that begin with pg_ or lo_ count as well.
var unsteady = map[string]bool{}

func init() {
	for name := range strings.FieldsSeq(`
		any_value array_agg array_sample array_shuffle avg bit_and bit_or bit_xor clock_timestamp corr covar_pop covar_samp
		cume_dist current_query currtid2 currval dense_rank first_value gen_random_uuid json_agg json_object_agg jsonb_agg
		jsonb_object_agg lag last_value lastval lead loread mode nth_value ntile percent_rank percentile_cont
		percentile_disc random random_normal range_agg range_intersect_agg rank regr_avgx regr_avgy regr_count
		regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy row_number setseed stddev stddev_pop stddev_samp
		string_agg sum timeofday txid_status uuidv4 uuidv7 var_pop var_samp variance xmlagg`) {
		unsteady[name] = true
	}
}

// steady reports whether a condition gives the same answer for a row however often a statement evaluates it.
func steady(n *pg.Node) bool {
	ok := true
	var visit func(m protoreflect.Message)
	visit = func(m protoreflect.Message) {
		switch x := m.Interface().(type) {
		case *pg.FuncCall:
			n := lastTwo(x.Funcname)
			ok = ok && (n.schema == "" || n.schema == "pg_catalog") && harmless()[n.name] && !unsteady[n.name] && x.Over == nil &&
				!strings.HasPrefix(n.name, "pg_") && !strings.HasPrefix(n.name, "lo_")
		case *pg.A_Expr:
			ok = ok && steadyOperator(x.Name)
		case *pg.SubLink:
			ok = ok && (len(x.OperName) == 0 || steadyOperator(x.OperName))
		case *pg.TypeName:
			n := lastTwo(x.Names)
			ok = ok && (n.schema == "" || n.schema == "pg_catalog") && builtin()["type "+n.name]
		case *pg.SelectStmt: // which rows come first, or are free, is chance
			ok = ok && x.LimitCount == nil && x.LimitOffset == nil && len(x.LockingClause) == 0 &&
				!(len(x.DistinctClause) > 0 && x.DistinctClause[0].GetNode() != nil)
		case *pg.RangeTableSample, *pg.InsertStmt, *pg.UpdateStmt, *pg.DeleteStmt, *pg.MergeStmt,
			*pg.JsonArrayAgg, *pg.JsonObjectAgg, *pg.RangeTableFunc, *pg.JsonTable, *pg.XmlExpr:
			ok = false
		}
		eachMessage(m, visit)
	}
	visit(n.ProtoReflect())
	return ok
}

func steadyOperator(name []*pg.Node) bool {
	n := lastTwo(name)
	return (n.schema == "" || n.schema == "pg_catalog") &&
		(strings.HasPrefix(n.name, "BETWEEN") || strings.HasPrefix(n.name, "NOT BETWEEN") || builtin()["operator "+n.name])
}
