package relay

import (
	"time"

	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// Mode is what the proxy does about a statement that should not run.
type Mode uint8

const (
	ModeEnforce Mode = iota // guard, announce, refuse
	ModeObserve             // change no byte; count and log what enforce would have refused
	ModeOff                 // forward only
)

// OpaquePolicy is what happens to code that may write anything in a session without a token.
type OpaquePolicy uint8

const (
	OpaqueAllow  OpaquePolicy = iota // let it pass; triggers close the gap
	OpaqueReject                     // ZF002
)

// TokenlessPolicy is what a session without a token may do, beside what its fences want.
type TokenlessPolicy uint8

const (
	TokenlessReadWrite      TokenlessPolicy = iota // write what no fence names
	TokenlessOpaqueReadOnly                        // the same, but code that may write anything runs in a READ ONLY transaction
	TokenlessReadOnly                              // nothing but read: all runs in READ ONLY transactions
)

// CallPolicy is what happens to CALL and DO, which may commit inside and then break behind a guard (2D000).
type CallPolicy uint8

const (
	CallGuard  CallPolicy = iota // as any opaque statement: guarded when the session has a token
	CallAllow                    // never guarded: for procedures with their own COMMIT
	CallReject                   // ZF004
)

// Config is the snapshot of the configuration that a session runs under, from its accept to its end. Immutable.
type Config struct {
	// Generation orders the snapshots of a process: see Server.Retire.
	Generation uint64
	// Announcer raises tokens as this snapshot wants it; nil: that of the ServerConfig does.
	Announcer Announcer
	// Idle bounds how long the client may say nothing.
	Idle IdleLimits

	Mode     Mode
	Analyzer *rewrite.Analyzer
	// Judges know of databases what Analyzer does not; nil: it is by Analyzer alone that texts are judged.
	Judges Judges
	Fences []string // names, in the order of the analyzer's Config.Fences
	Bare   string   // fence that a bare token is for; "" when a bare token is refused
	Opaque OpaquePolicy
	Call   CallPolicy
	// Tokenless is for ModeEnforce only.
	Tokenless TokenlessPolicy
	// FunctionCalls are oids of functions that FunctionCall messages may name, as they change no fenced data.
	FunctionCalls []uint32
	// Pooled marks a listener behind a transaction pooler: a token set with plain SET would outlive the client's
	// transaction and pass to the pool's next client, so only SET LOCAL is taken.
	Pooled bool
	// TokenIsOurs: the proxy has given the session its token, and the client must not assign another.
	TokenIsOurs bool
	// Walsender marks a session that asked for replication=database: the server runs SQL in it, by the simple protocol only
	// (postgres.c forbidden_in_wal_sender).
	Walsender bool
	// AllowRoleToken accepts a fence.token that came from ALTER ROLE or ALTER DATABASE ... SET. It hands a
	// reconnecting zombie the fresh token, so it is off by default.
	AllowRoleToken bool
	// MaxStatementBytes bounds a Query or Parse message (54000 beyond it). 0 means 64 MiB.
	MaxStatementBytes int
	// Known rejects tokens that are known to be stale without asking the database. nil: always ask.
	Known *tokens.Known
	// Shadow keeps the marks of ModeObserve, shared by all sessions; needed in that mode only.
	Shadow *ShadowMarks
}

// IdleLimits are how long a session may wait for its client; 0 is for ever. A session is ended up to a second later.
type IdleLimits struct {
	Outside time.Duration // of a transaction: 57P05
	Inside  time.Duration // a transaction: 25P03
}

const defaultMaxStatement = 64 << 20

func (c *Config) maxStatement() int {
	if c.MaxStatementBytes > 0 {
		return c.MaxStatementBytes
	}
	return defaultMaxStatement
}
