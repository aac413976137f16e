package rewrite

// Kind says what a statement does to the session and its transaction. What it may do to data is its Effect.
type Kind uint8

const (
	KindOther            Kind = iota // SELECT, DML, DDL and utilities that run inside a transaction block
	KindEmpty                        // nothing but whitespace and comments between semicolons: no result of its own
	KindBegin                        // BEGIN, START TRANSACTION
	KindCommit                       // COMMIT, END
	KindCommitChain                  // COMMIT AND CHAIN: a new transaction although ReadyForQuery stays 'T'
	KindRollback                     // ROLLBACK, ABORT
	KindRollbackChain                // ROLLBACK AND CHAIN
	KindSavepoint                    // SAVEPOINT name
	KindRollbackTo                   // ROLLBACK TO SAVEPOINT name: releases locks taken since
	KindRelease                      // RELEASE SAVEPOINT name
	KindPrepareTx                    // PREPARE TRANSACTION: ends the transaction, keeps its locks
	KindCommitPrepared               // COMMIT PREPARED: publishes writes whose guard's lock is still held
	KindRollbackPrepared             // ROLLBACK PREPARED
	KindSetToken                     // assigns fence.token: SET, SET LOCAL, or a lone SELECT set_config(...); see Statement.Token
	KindResetToken                   // RESET fence.token, SET fence.token TO DEFAULT, RESET ALL
	KindSet                          // any other SET, RESET or SHOW
	KindDiscard                      // DISCARD ALL (refuses a transaction block); DISCARD PLANS/TEMP/SEQUENCES are KindOther
	KindPrepare                      // PREPARE name AS ...: Statement.Name; Effect and Fences are those of the prepared statement
	KindExecute                      // EXECUTE name: Statement.Name; its effect is that of the PREPARE
	KindDeallocate                   // DEALLOCATE name or ALL (Name == "")
	KindDeclare                      // DECLARE CURSOR
	KindFetch                        // FETCH, MOVE: runs the cursor's query
	KindCopyIn                       // COPY ... FROM STDIN: the session enters COPY-IN
	KindCopyOut                      // COPY ... TO STDOUT
	KindCall                         // CALL: may commit inside
	KindDo                           // DO: may commit inside
	KindNoBlock                      // utility that refuses a transaction block (VACUUM, CREATE DATABASE, ...): never preceded by a guard
)

// Effect says what a statement may do to data, ordered by danger. The effect of several statements is the greatest.
type Effect uint8

const (
	EffectNone    Effect = iota // known not to write
	EffectLock                  // locks rows, writes nothing: SELECT ... FOR UPDATE/SHARE. Not read-only, not guarded
	EffectWrite                 // writes, and every target is visible in the text; fenced if Fences is not empty
	EffectOpaque                // calls code that may write anything (functions not known harmless, DO, CALL): policy decides
	EffectUnknown               // text that this package cannot read: may write any fence. Guard all, or refuse
)

// FenceSet is a set of fences by their index in Config.Fences: bit i of word i/64. Values are immutable once in a Plan.
type FenceSet struct{ words []uint64 }

// Span is a half-open range of byte offsets [Start, End) in the SQL text.
type Span struct{ Start, End int32 }

// Token is the value that a KindSetToken statement assigns.
type Token struct {
	Value string // the literal, when Param is 0
	Param int    // n for $n: the value arrives in Bind; 0 for a literal
	Local bool   // SET LOCAL, or set_config(..., true)
}

// Refusal is a statement that must not reach the server: SQLSTATE, message and hint for the client.
type Refusal struct {
	Code    string // five characters, e.g. "ZF004"
	Message string
	Hint    string
	// Passing: it may be gone a moment later. What is prepared must not keep it.
	Passing bool
}

// Statement is one statement of a text. It holds no text of its own except names, and no byte offsets: a Plan is
// shared by all texts of one shape, offsets belong to an Analysis.
type Statement struct {
	Kind   Kind
	Effect Effect
	// Fences whose guard must run before the statement: what it writes. For EffectOpaque it holds the targets that are
	// visible (UPDATE fenced SET a = f(b)). EffectUnknown always holds all fences.
	Fences FenceSet
	// RowFences are fences with StaleRewrite whose rows the spliced statement checks by itself: no guard is needed.
	// NewRows are those for which it may create rows, and no row check protects rows to come: the guard must run if the
	// session's token for the fence has a name. Neither is in Fences.
	RowFences, NewRows FenceSet
	// MayChangeToken is set when the session's token may be another one afterwards in a way that Token does not tell:
	// a dynamic set_config, UPDATE pg_settings, an opaque call.
	MayChangeToken bool
	// ChangesLexing is set when standard_conforming_strings or client_encoding may be another one afterwards. Until the
	// server has answered, what follows must be analysed with both Settings set.
	ChangesLexing bool
	// PastReadOnly is set when a READ ONLY transaction does not keep the statement from what it does: COPY with a file or
	// program of the server, functions that change the server but no table, connections to other servers.
	PastReadOnly bool
	// MayLiftReadOnly is set when the statement may take transaction_read_only back to its default, which up to PostgreSQL 15
	// makes a READ ONLY transaction writable: RESET, set_config with NULL.
	MayLiftReadOnly bool
	Catalog         CatalogChange // DDL
	NewWays         bool          // of which there may be a new way to a fence when it is committed
	// Uses are for Analyzer.Again; nil when there is nothing to look at again.
	Uses   *Uses
	Name   string   // prepared statement, savepoint or cursor, folded as PostgreSQL folds it
	Token  *Token   // for KindSetToken
	Refuse *Refusal // not nil: refuse, whatever the mode of the fence
	Shape  uint64   // fingerprint of the shape of the text, for logs; 0 when it could not be read
	Verb   string   // command word for metrics and explain: "UPDATE", "COPY FROM", "SELECT"; closed set
}

// edit is a change of the text, anchored at a token, so that it holds for all texts of a shape.
type edit struct {
	token    int32  // index of the token
	after    bool   // insert behind the token instead of in front of it
	rows     bool   // also into each row that was left out behind the token, in front of its parenthesis
	drop     int32  // tokens that are replaced
	text     string // goes in,
	from, to int32  // then a copy of these tokens with everything between them,
	element  int32  // (in a row that was left out: of this element of it)
	tail     string // then this
}

// Plan is what is known of a text: the same for every text of its shape under one Config. Immutable; shared by sessions.
type Plan struct {
	Statements []Statement
	Fences     FenceSet // union over Statements
	Effect     Effect   // greatest of Statements
	// Plain: the statements need no attention beyond forwarding: none is fenced, opaque, unknown or refused, and none
	// changes transaction, token, prepared statements or cursors, and the text is sent as it is. The engine's fast path is this one bit.
	Plain bool
	// Failure says why the text is EffectUnknown ("" otherwise), for explain and the log; never holds a literal.
	Failure string
	Catalog CatalogChange // greatest of Statements
	// ASCIISplice: what is spliced in is ASCII, apart from copies of the text itself.
	ASCIISplice bool

	edits   []edit
	catalog uint64  // the generation of the catalog that the plan rests on, plus one; 0 for none
	taken   []taken // what it has taken from it
	first   []int32 // Statements[i] begins at this token
}

// Spliced reports whether the text must be changed before it may be sent: see Analysis.Patches.
func (p *Plan) Spliced() bool { return len(p.edits) > 0 }

// RestsOnCatalog reports whether the plan took the columns of a table from the catalog.
func (p *Plan) RestsOnCatalog() bool { return p.catalog != 0 }

// Analysis is a Plan laid over one text.
type Analysis struct {
	*Plan
	// Starts[i] is the byte offset of the first token of Statements[i]; valid until the next call with the same Scratch.
	Starts []int32
	// Patches, in ascending order, turn the text into the one to send: row tokens. Valid as long as Starts.
	Patches []Patch
}
