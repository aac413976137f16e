package rewrite

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// A call is judged by its name alone: arguments' types, search_path and overloads are the server's. What that cannot
// see, and what only triggers close: a function or operator of the application that hides a built-in name, functional
// notation (t.f), implicit casts and checks of domains, defaults, views and policies over functions.

//go:embed harmless.txt
var harmlessText string

var harmless = sync.OnceValue(func() map[string]bool {
	m := map[string]bool{}
	for name := range strings.FieldsSeq(harmlessText) {
		m[name] = true
	}
	return m
})

// writers change something of the server or of the cluster, but no table that a fence could name: EffectWrite.
var writers = map[string]bool{}

func init() {
	for name := range strings.FieldsSeq(`
		nextval setval
		lo_creat lo_create lo_from_bytea lo_put lo_import lo_unlink lo_truncate lo_truncate64 lowrite lo_open lo_export
		pg_logical_emit_message pg_create_restore_point pg_switch_wal pg_promote pg_wal_replay_pause pg_wal_replay_resume
		pg_backup_start pg_backup_stop pg_reload_conf pg_rotate_logfile pg_rotate_logfile_old pg_terminate_backend
		pg_cancel_backend pg_log_backend_memory_contexts
		pg_create_physical_replication_slot pg_create_logical_replication_slot pg_drop_replication_slot
		pg_copy_physical_replication_slot pg_copy_logical_replication_slot pg_replication_slot_advance
		pg_logical_slot_get_changes pg_logical_slot_get_binary_changes pg_logical_slot_peek_changes
		pg_logical_slot_peek_binary_changes
		pg_replication_origin_advance pg_replication_origin_create pg_replication_origin_drop
		pg_replication_origin_session_reset pg_replication_origin_session_setup pg_replication_origin_xact_reset
		pg_replication_origin_xact_setup
		pg_stat_reset pg_stat_reset_shared pg_stat_reset_slru pg_stat_reset_replication_slot
		pg_stat_reset_subscription_stats pg_stat_reset_single_table_counters pg_stat_reset_single_function_counters
		pg_import_system_collations pg_nextoid pg_stop_making_pinned_objects pg_extension_config_dump`) {
		writers[name] = true
	}
}

// locker: it holds back others until the end of the transaction or session: EffectLock.
func locker(name string) bool {
	return strings.HasPrefix(name, "pg_advisory_") || strings.HasPrefix(name, "pg_try_advisory_")
}

// functions are those of the application that its configuration declares harmless.
type functions map[tableName]bool

func newFunctions(names []string) (functions, error) {
	f := functions{}
	for _, s := range names {
		n, err := parsePattern(s)
		if err == nil && n.name == "*" {
			err = fmt.Errorf("a function needs a name")
		}
		if err != nil {
			return nil, fmt.Errorf("harmless function %q: %w", s, err)
		}
		f[n] = true
	}
	return f, nil
}

// call judges a function call; its arguments are judged by themselves.
func (j *judge) call(x *pg.FuncCall) {
	n := lastTwo(x.Funcname)
	if !j.a.functions[n] {
		j.calls(n)
	}
	switch catalog := n.schema == "" || n.schema == "pg_catalog"; {
	case j.a.functions[n]:
	case catalog && locker(n.name):
		j.effect(EffectLock)
	case catalog && harmless()[n.name]:
	case catalog && n.name == "set_config":
		j.setConfig(x)
	case catalog && writers[n.name]:
		j.effect(EffectWrite)
		j.st.PastReadOnly = j.st.PastReadOnly || n.name != "nextval" && n.name != "setval"
	case n.schema == fenceSchema && strings.HasPrefix(n.name, "guard"):
	default:
		j.effect(EffectOpaque)
		j.st.PastReadOnly = j.st.PastReadOnly || elsewhere(n.name)
	}
}

// elsewhere: functions of extensions that come with PostgreSQL which write by a connection of their own, or into files.
func elsewhere(name string) bool {
	return strings.HasPrefix(name, "dblink") || strings.HasPrefix(name, "pg_file_")
}

// operator judges an operator by its name: one that not every database has can be any function.
func (j *judge) operator(name []*pg.Node) {
	n := lastTwo(name)
	switch {
	case n.name == "":
	case n.schema != "" && n.schema != "pg_catalog":
		j.effect(EffectOpaque)
	case strings.HasPrefix(n.name, "BETWEEN"), strings.HasPrefix(n.name, "NOT BETWEEN"): // no operator: gram.y AEXPR_BETWEEN
	case !builtin()["operator "+n.name]:
		j.effect(EffectOpaque)
	}
}

// typeName judges a type that something is converted to: a cast to a type of the application, or the check of a domain,
// can be any function.
func (j *judge) typeName(x *pg.TypeName) {
	n := lastTwo(x.Names)
	switch {
	case n.name == "" || j.a.functions[n]:
	case n.schema != "" && n.schema != "pg_catalog", !builtin()["type "+n.name]:
		j.effect(EffectOpaque)
	}
}

//go:embed builtin.txt
var builtinText string

// builtin are the operators and types of pg_catalog, as "operator +" and "type text".
var builtin = sync.OnceValue(func() map[string]bool {
	m := map[string]bool{}
	for line := range strings.Lines(builtinText) {
		m[strings.TrimSpace(line)] = true
	}
	return m
})

func lastTwo(parts []*pg.Node) tableName {
	var n tableName
	if k := len(parts); k > 0 {
		n.name = parts[k-1].GetString_().GetSval()
		if k > 1 {
			n.schema = parts[k-2].GetString_().GetSval()
		}
	}
	return n
}
