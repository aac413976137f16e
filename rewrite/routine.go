package rewrite

import (
	pg "github.com/pganalyze/pg_query_go/v6"
)

// routine judges DDL on routines, types, extensions and roles. Bodies and defaults run later.
func (j *judge) routine(n *pg.Node) bool {
	switch x := n.GetNode().(type) {
	case *pg.Node_CreateFunctionStmt:
		j.st.Verb = "CREATE FUNCTION"
		j.names(x.CreateFunctionStmt.Funcname)
	case *pg.Node_AlterFunctionStmt:
		j.st.Verb = "ALTER FUNCTION"
		j.names(x.AlterFunctionStmt.Func.GetObjname())
	case *pg.Node_DefineStmt:
		j.st.Verb = "CREATE TYPE"
		j.names(x.DefineStmt.Defnames)
	case *pg.Node_CompositeTypeStmt:
		j.st.Verb = "CREATE TYPE"
		j.schemaName(x.CompositeTypeStmt.Typevar.GetSchemaname())
	case *pg.Node_CreateEnumStmt:
		j.st.Verb = "CREATE TYPE"
		j.names(x.CreateEnumStmt.TypeName)
	case *pg.Node_CreateRangeStmt:
		j.st.Verb = "CREATE TYPE"
		j.names(x.CreateRangeStmt.TypeName)
	case *pg.Node_AlterEnumStmt:
		j.st.Verb = "ALTER TYPE"
		j.names(x.AlterEnumStmt.TypeName)
	case *pg.Node_AlterTypeStmt:
		j.st.Verb = "ALTER TYPE"
		j.names(x.AlterTypeStmt.TypeName)
	case *pg.Node_CreateDomainStmt:
		j.st.Verb = "CREATE DOMAIN"
		j.names(x.CreateDomainStmt.Domainname)
	case *pg.Node_AlterDomainStmt: // a new check is run over the tables that use the domain
		j.st.Verb = "ALTER DOMAIN"
		j.names(x.AlterDomainStmt.TypeName)
		j.touch(x.AlterDomainStmt)
	case *pg.Node_CreateExtensionStmt: // runs a script
		j.st.Verb = "CREATE EXTENSION"
		j.schemaName(optionSchema(x.CreateExtensionStmt.Options))
		j.effect(EffectOpaque)
	case *pg.Node_AlterExtensionStmt:
		j.st.Verb = "ALTER EXTENSION"
		j.effect(EffectOpaque)
	case *pg.Node_ImportForeignSchemaStmt:
		j.st.Verb = "IMPORT FOREIGN SCHEMA"
		j.schemaName(x.ImportForeignSchemaStmt.LocalSchema)
	case *pg.Node_CreateCastStmt, *pg.Node_CreateTransformStmt, *pg.Node_CreateConversionStmt, *pg.Node_CreateOpClassStmt,
		*pg.Node_CreateOpFamilyStmt, *pg.Node_AlterOpFamilyStmt, *pg.Node_AlterOperatorStmt, *pg.Node_AlterCollationStmt,
		*pg.Node_CreateAmStmt, *pg.Node_CreatePlangStmt, *pg.Node_CreateEventTrigStmt, *pg.Node_AlterEventTrigStmt,
		*pg.Node_AlterTsdictionaryStmt, *pg.Node_AlterTsconfigurationStmt,
		*pg.Node_CreateFdwStmt, *pg.Node_AlterFdwStmt, *pg.Node_CreateForeignServerStmt, *pg.Node_AlterForeignServerStmt,
		*pg.Node_CreateUserMappingStmt, *pg.Node_AlterUserMappingStmt, *pg.Node_DropUserMappingStmt,
		*pg.Node_CreatePublicationStmt, *pg.Node_AlterPublicationStmt:
		j.st.Verb = "DDL"
	case *pg.Node_CreateRoleStmt, *pg.Node_AlterRoleStmt, *pg.Node_DropRoleStmt, *pg.Node_GrantRoleStmt,
		*pg.Node_ReassignOwnedStmt:
		j.st.Verb = "ROLE"
	case *pg.Node_AlterRoleSetStmt:
		j.st.Verb = "ALTER ROLE SET"
		j.stored(x.AlterRoleSetStmt.Setstmt)
	case *pg.Node_AlterDatabaseSetStmt:
		j.st.Verb = "ALTER DATABASE SET"
		j.stored(x.AlterDatabaseSetStmt.Setstmt)
	default:
		return false
	}
	return true
}

// stored marks a token that is stored for sessions to come. The statement passes: such a value is refused where a
// session presents it.
func (j *judge) stored(x *pg.VariableSetStmt) {
	if isTokenSetting(x.GetName()) {
		j.st.MayChangeToken = true
	}
}

// maintenance judges the utilities that refuse a transaction block, in one of the versions 14 to 18 at least
// (PreventInTransactionBlock and its callers). CLUSTER and REINDEX of a partitioned table do, and the text does not
// tell which table is. They change no row, so a guard is never missed.
func (j *judge) maintenance(n *pg.Node) bool {
	j.st.Kind = KindNoBlock
	switch x := n.GetNode().(type) {
	case *pg.Node_VacuumStmt:
		j.st.Verb = "VACUUM"
		if !x.VacuumStmt.IsVacuumcmd {
			j.st.Kind, j.st.Verb = KindOther, "ANALYZE"
		}
	case *pg.Node_ClusterStmt:
		j.st.Verb = "CLUSTER"
	case *pg.Node_ReindexStmt:
		j.st.Verb = "REINDEX"
	case *pg.Node_CreatedbStmt, *pg.Node_DropdbStmt:
		j.st.Verb = "DATABASE"
	case *pg.Node_AlterDatabaseStmt:
		j.st.Verb = "DATABASE"
		j.st.Kind = KindOther
		for _, o := range x.AlterDatabaseStmt.Options {
			if o.GetDefElem().GetDefname() == "tablespace" {
				j.st.Kind = KindNoBlock
			}
		}
	case *pg.Node_AlterDatabaseRefreshCollStmt:
		j.st.Kind, j.st.Verb = KindOther, "DATABASE"
	case *pg.Node_CreateTableSpaceStmt, *pg.Node_DropTableSpaceStmt:
		j.st.Verb = "TABLESPACE"
	case *pg.Node_AlterTableSpaceOptionsStmt:
		j.st.Kind, j.st.Verb = KindOther, "TABLESPACE"
	case *pg.Node_AlterSystemStmt:
		j.st.Verb = "ALTER SYSTEM"
		j.stored(x.AlterSystemStmt.Setstmt)
	case *pg.Node_CreateSubscriptionStmt, *pg.Node_AlterSubscriptionStmt, *pg.Node_DropSubscriptionStmt:
		j.st.Verb = "SUBSCRIPTION"
	default:
		j.st.Kind = KindOther
		return false
	}
	return true
}
