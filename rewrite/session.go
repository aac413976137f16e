package rewrite

import (
	"strconv"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

const (
	tokenSetting    = "fence.token"
	readOnlySetting = "transaction_read_only"
)

// session judges statements about transactions, settings, prepared statements and cursors.
func (j *judge) session(n *pg.Node) bool {
	switch x := n.GetNode().(type) {
	case *pg.Node_TransactionStmt:
		j.transaction(x.TransactionStmt)
	case *pg.Node_VariableSetStmt:
		j.set(x.VariableSetStmt)
	case *pg.Node_VariableShowStmt:
		j.st.Kind, j.st.Verb = KindSet, "SHOW"
	case *pg.Node_ConstraintsSetStmt:
		j.st.Verb = "SET CONSTRAINTS"
		if !x.ConstraintsSetStmt.Deferred { // runs the triggers that were put off
			j.effect(EffectOpaque)
		}
	case *pg.Node_DiscardStmt:
		j.st.Verb = "DISCARD"
		if x.DiscardStmt.Target == pg.DiscardMode_DISCARD_ALL {
			j.st.Kind, j.st.ChangesLexing = KindDiscard, true
		}
	case *pg.Node_PrepareStmt:
		j.prepare(x.PrepareStmt)
	case *pg.Node_ExecuteStmt:
		j.execute(x.ExecuteStmt)
	case *pg.Node_DeallocateStmt:
		j.st.Kind, j.st.Verb, j.st.Name = KindDeallocate, "DEALLOCATE", x.DeallocateStmt.Name
		if x.DeallocateStmt.Isall {
			j.st.Name = ""
		}
	case *pg.Node_DeclareCursorStmt:
		j.walkNode(x.DeclareCursorStmt.Query)
		j.st.Kind, j.st.Verb, j.st.Name = KindDeclare, "DECLARE", x.DeclareCursorStmt.Portalname
	case *pg.Node_FetchStmt:
		j.st.Kind, j.st.Verb, j.st.Name = KindFetch, "FETCH", x.FetchStmt.Portalname
	case *pg.Node_ClosePortalStmt:
		j.st.Verb = "CLOSE"
	case *pg.Node_ListenStmt, *pg.Node_UnlistenStmt, *pg.Node_NotifyStmt:
		j.st.Verb = "NOTIFY"
	case *pg.Node_CheckPointStmt:
		j.st.Verb = "CHECKPOINT"
	case *pg.Node_LoadStmt: // runs code of a library
		j.st.Verb = "LOAD"
		j.effect(EffectOpaque)
	default:
		return false
	}
	return true
}

func (j *judge) transaction(x *pg.TransactionStmt) {
	st := &j.st
	switch x.Kind {
	case pg.TransactionStmtKind_TRANS_STMT_BEGIN, pg.TransactionStmtKind_TRANS_STMT_START:
		st.Kind, st.Verb = KindBegin, "BEGIN"
	case pg.TransactionStmtKind_TRANS_STMT_COMMIT:
		st.Kind, st.Verb = KindCommit, "COMMIT"
		if x.Chain {
			st.Kind = KindCommitChain
		}
	case pg.TransactionStmtKind_TRANS_STMT_ROLLBACK:
		st.Kind, st.Verb = KindRollback, "ROLLBACK"
		if x.Chain {
			st.Kind = KindRollbackChain
		}
	case pg.TransactionStmtKind_TRANS_STMT_SAVEPOINT:
		st.Kind, st.Verb, st.Name = KindSavepoint, "SAVEPOINT", x.SavepointName
	case pg.TransactionStmtKind_TRANS_STMT_RELEASE:
		st.Kind, st.Verb, st.Name = KindRelease, "RELEASE", x.SavepointName
	case pg.TransactionStmtKind_TRANS_STMT_ROLLBACK_TO:
		st.Kind, st.Verb, st.Name = KindRollbackTo, "ROLLBACK TO", x.SavepointName
	case pg.TransactionStmtKind_TRANS_STMT_PREPARE:
		st.Kind, st.Verb = KindPrepareTx, "PREPARE TRANSACTION"
	case pg.TransactionStmtKind_TRANS_STMT_COMMIT_PREPARED:
		st.Kind, st.Verb = KindCommitPrepared, "COMMIT PREPARED"
	case pg.TransactionStmtKind_TRANS_STMT_ROLLBACK_PREPARED:
		st.Kind, st.Verb = KindRollbackPrepared, "ROLLBACK PREPARED"
	default:
		st.Verb = "OTHER"
		j.effect(EffectOpaque)
	}
}

// prepare: the statement does later what the inner one does, EXECUTE by EXECUTE.
func (j *judge) prepare(x *pg.PrepareStmt) {
	st := j.inside(x.Query)
	if st.Token != nil || st.Kind == KindResetToken { // $1 is EXECUTE's, out of sight
		st.MayChangeToken, st.Token = true, nil
	}
	st.Kind, st.Name, st.Verb = KindPrepare, x.Name, "PREPARE"
	j.st = st
}

// execute judges the arguments only, which are evaluated at once; the rest is the PREPARE's.
func (j *judge) execute(x *pg.ExecuteStmt) {
	for _, p := range x.Params {
		j.walkNode(p)
	}
	j.st.Kind, j.st.Name = KindExecute, x.Name
	if j.st.Verb == "" {
		j.st.Verb = "EXECUTE"
	}
}

// set judges SET and RESET. The name is as the parser joins it, "fence"."token" too; settings are looked up without case.
func (j *judge) set(x *pg.VariableSetStmt) {
	j.st.Kind, j.st.Verb = KindSet, "SET"
	switch x.Kind {
	case pg.VariableSetKind_VAR_RESET_ALL:
		j.st.Kind, j.st.Verb, j.st.ChangesLexing = KindResetToken, "RESET", true
		return
	case pg.VariableSetKind_VAR_RESET:
		j.st.Verb = "RESET"
	}
	if changesLexing(x.Name) {
		j.st.ChangesLexing = true
	}
	switch x.Kind {
	case pg.VariableSetKind_VAR_SET_DEFAULT, pg.VariableSetKind_VAR_RESET:
		j.st.MayLiftReadOnly = strings.EqualFold(x.Name, readOnlySetting)
	}
	if !isTokenSetting(x.Name) {
		return
	}
	value, ok := "", false
	switch x.Kind {
	case pg.VariableSetKind_VAR_SET_VALUE:
		if len(x.Args) == 1 { // a list is an error of the server: it takes only one argument
			value, ok = settingValue(x.Args[0].GetAConst())
		}
	case pg.VariableSetKind_VAR_SET_DEFAULT, pg.VariableSetKind_VAR_RESET:
		j.st.Kind = KindResetToken
		return
	}
	if !ok {
		j.st.MayChangeToken = true
		return
	}
	j.literal = true
	j.st.Kind, j.st.Token = KindSetToken, &Token{Value: value, Local: x.IsLocal}
}

func isTokenSetting(name string) bool { return strings.EqualFold(name, tokenSetting) }

func changesLexing(name string) bool {
	return strings.EqualFold(name, "standard_conforming_strings") || strings.EqualFold(name, "client_encoding")
}

// settingValue is the text that a constant becomes as the value of a setting (guc_funcs.c flatten_set_variable_args).
func settingValue(c *pg.A_Const) (string, bool) {
	switch v := c.GetVal().(type) {
	case *pg.A_Const_Sval:
		return v.Sval.Sval, true
	case *pg.A_Const_Ival:
		return strconv.Itoa(int(v.Ival.Ival)), true
	case *pg.A_Const_Fval:
		return v.Fval.Fval, true
	}
	return "", false
}
