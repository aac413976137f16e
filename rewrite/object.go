package rewrite

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// names refuses an object in schema fence.
func (j *judge) names(parts []*pg.Node) {
	for i := 0; i < len(parts)-1; i++ {
		if parts[i].GetString_().GetSval() == fenceSchema {
			j.refuse("changing schema " + fenceSchema)
		}
	}
}

// named judges the object of DROP, COMMENT, ALTER ... OWNER and their like: a list of names, a routine, a type or a name.
func (j *judge) named(kind pg.ObjectType, n *pg.Node) {
	switch x := n.GetNode().(type) {
	case *pg.Node_List:
		parts := x.List.Items
		j.names(parts)
		switch kind {
		case pg.ObjectType_OBJECT_COLUMN, pg.ObjectType_OBJECT_TABCONSTRAINT, pg.ObjectType_OBJECT_TRIGGER,
			pg.ObjectType_OBJECT_RULE, pg.ObjectType_OBJECT_POLICY:
			if len(parts) > 1 {
				j.writeName(lastTwo(parts[:len(parts)-1]))
			}
		case pg.ObjectType_OBJECT_TABLE, pg.ObjectType_OBJECT_VIEW, pg.ObjectType_OBJECT_MATVIEW,
			pg.ObjectType_OBJECT_FOREIGN_TABLE, pg.ObjectType_OBJECT_SEQUENCE:
			j.writeName(lastTwo(parts))
		}
	case *pg.Node_ObjectWithArgs:
		j.names(x.ObjectWithArgs.Objname)
	case *pg.Node_TypeName:
		j.names(x.TypeName.Names)
	case *pg.Node_String_:
		if kind == pg.ObjectType_OBJECT_SCHEMA {
			j.schemaName(x.String_.Sval)
		}
	}
}

func (j *judge) schemaName(name string) {
	if name == fenceSchema {
		j.refuse("changing schema " + fenceSchema)
	}
}

// object judges statements that name an object of any kind.
func (j *judge) object(n *pg.Node) bool {
	switch x := n.GetNode().(type) {
	case *pg.Node_DropStmt:
		j.st.Verb = "DROP"
		j.drop(x.DropStmt)
	case *pg.Node_DropOwnedStmt: // takes whatever the role owns
		j.st.Verb = "DROP OWNED"
		j.fence(j.a.tables.all)
		j.effect(EffectOpaque)
	case *pg.Node_RenameStmt:
		j.st.Verb = "ALTER RENAME"
		j.rename(x.RenameStmt)
	case *pg.Node_AlterObjectSchemaStmt:
		s := x.AlterObjectSchemaStmt
		j.st.Verb = "ALTER SET SCHEMA"
		j.schemaName(s.Newschema)
		if s.Relation != nil {
			j.write(s.Relation)
			j.writeName(tableName{s.Newschema, s.Relation.Relname})
		}
		j.named(s.ObjectType, s.Object)
	case *pg.Node_AlterOwnerStmt:
		j.st.Verb = "ALTER OWNER"
		j.write(x.AlterOwnerStmt.Relation)
		j.named(x.AlterOwnerStmt.ObjectType, x.AlterOwnerStmt.Object)
	case *pg.Node_AlterObjectDependsStmt:
		j.st.Verb = "ALTER DEPENDS"
		j.write(x.AlterObjectDependsStmt.Relation)
		j.named(x.AlterObjectDependsStmt.ObjectType, x.AlterObjectDependsStmt.Object)
	case *pg.Node_CommentStmt:
		j.st.Verb = "COMMENT"
		j.named(x.CommentStmt.Objtype, x.CommentStmt.Object)
	case *pg.Node_SecLabelStmt:
		j.st.Verb = "SECURITY LABEL"
		j.named(x.SecLabelStmt.Objtype, x.SecLabelStmt.Object)
	case *pg.Node_AlterExtensionContentsStmt:
		j.st.Verb = "ALTER EXTENSION"
		j.named(x.AlterExtensionContentsStmt.Objtype, x.AlterExtensionContentsStmt.Object)
	case *pg.Node_CreateSchemaStmt:
		j.st.Verb = "CREATE SCHEMA"
		j.createSchema(x.CreateSchemaStmt)
	case *pg.Node_GrantStmt:
		j.st.Verb = "GRANT"
		j.grant(x.GrantStmt)
	case *pg.Node_AlterDefaultPrivilegesStmt:
		j.st.Verb = "ALTER DEFAULT PRIVILEGES"
		for _, o := range x.AlterDefaultPrivilegesStmt.Options {
			for _, s := range o.GetDefElem().GetArg().GetList().GetItems() {
				j.schemaName(s.GetString_().GetSval())
			}
		}
	default:
		return false
	}
	return true
}

// drop: CASCADE takes tables, or columns of them, that are not named.
func (j *judge) drop(x *pg.DropStmt) {
	if x.Concurrent {
		j.st.Kind = KindNoBlock
	}
	cascade := x.Behavior == pg.DropBehavior_DROP_CASCADE
	if cascade {
		j.effect(EffectOpaque)
	}
	for _, o := range x.Objects {
		j.named(x.RemoveType, o)
		if cascade && x.RemoveType == pg.ObjectType_OBJECT_SCHEMA {
			j.fence(j.a.tables.inSchema(o.GetString_().GetSval()))
		}
	}
}

// rename: a name that becomes a fenced one, or ceases to be it, puts other rows behind the name.
func (j *judge) rename(x *pg.RenameStmt) {
	j.named(x.RenameType, x.Object)
	if x.RenameType == pg.ObjectType_OBJECT_SCHEMA {
		for _, name := range []string{x.Subname, x.Newname} {
			j.schemaName(name)
			j.fence(j.a.tables.ofSchema(name))
		}
		return
	}
	if x.Relation == nil {
		return
	}
	j.write(x.Relation)
	switch x.RenameType {
	case pg.ObjectType_OBJECT_TABLE, pg.ObjectType_OBJECT_VIEW, pg.ObjectType_OBJECT_MATVIEW,
		pg.ObjectType_OBJECT_FOREIGN_TABLE, pg.ObjectType_OBJECT_SEQUENCE:
		j.writeName(tableName{x.Relation.Schemaname, x.Newname})
	}
}

func (j *judge) createSchema(x *pg.CreateSchemaStmt) {
	j.schemaName(x.Schemaname)
	if x.Schemaname == "" { // AUTHORIZATION role: the schema takes its name
		j.schemaName(x.Authrole.GetRolename())
	}
	for _, e := range x.SchemaElts {
		inner := judge{a: j.a}
		st := inner.statement(e)
		j.effect(st.Effect)
		j.fence(st.Fences)
		j.st.NewWays = j.st.NewWays || st.NewWays
		if st.Uses != nil {
			j.uses().tables = append(j.uses().tables, st.Uses.tables...)
			j.uses().calls = append(j.uses().calls, st.Uses.calls...)
		}
		if j.st.Refuse == nil {
			j.st.Refuse = st.Refuse
		}
	}
}

// grant: rights change no data; those on schema fence are fenceproxy's.
func (j *judge) grant(x *pg.GrantStmt) {
	for _, o := range x.Objects {
		if o.GetRangeVar().GetSchemaname() == fenceSchema {
			j.refuse("changing schema " + fenceSchema)
		}
		kind := x.Objtype
		if x.Targtype == pg.GrantTargetType_ACL_TARGET_ALL_IN_SCHEMA {
			kind = pg.ObjectType_OBJECT_SCHEMA
		}
		if kind == pg.ObjectType_OBJECT_SCHEMA || o.GetObjectWithArgs() != nil {
			j.named(kind, o)
		}
	}
}

// optionSchema returns the value of SCHEMA in the options of a statement.
func optionSchema(options []*pg.Node) string {
	for _, o := range options {
		if d := o.GetDefElem(); strings.EqualFold(d.GetDefname(), "schema") {
			return d.GetArg().GetString_().GetSval()
		}
	}
	return ""
}
