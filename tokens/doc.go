// Package tokens holds what fences are made of: the grammar and order of fencing tokens, the schema that keeps a mark
// per fence in PostgreSQL, the statements that guard a write with it, and the control connection that raises marks and
// ends the backends in a raise's way. Memory here may reject a token that is known to be stale; acceptance is always
// the database's word.
package tokens
