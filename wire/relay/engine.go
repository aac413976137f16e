package relay

import (
	"errors"

	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// Startup is what the engine needs to know of the startup packet, which the driver has forwarded.
type Startup struct {
	Token       string // fence.token as the packet presents it, "" for none
	User        string
	Database    string
	Application string
	Remote      string  // of the client's connection, for the log
	Decider     Decider // nil wants no decisions
	Judge       Judge   // nil: the configuration's analyzer judges
}

// phase of a session.
type phase uint8

const (
	phaseLogin    phase = iota // up to the first ReadyForQuery; only authentication messages pass
	phaseQuestion              // first ReadyForQuery held back; the session question is on its way
	phaseAnnounce              // the startup token is being raised
	phaseReady
)

// pause is why the client's messages are held.
type pause uint8

const (
	pauseNone     pause = iota
	pauseLogin          // a message arrived before the session was ready
	pauseQuiet          // until every Sync and Query sent so far is answered
	pauseAsk            // the session question is on its way
	pauseAnnounce       // a token is being raised
	pauseProbe          // the server is asked whether it can parse a text
	pauseResync         // the engine finds out where the server is (resync.go)
	pauseDepth          // too many messages are unanswered
	pauseLook           // ReadyForQuery is held back until the catalog was looked at
)

// maxUnanswered bounds the queue of slots. A client that sends on without reading is held beyond it; the server's last
// replies may sit unflushed in its 8 KiB buffer (pqcomm.c), some 1,600 messages, so half of it is always reached.
const maxUnanswered = 1 << 16

// Engine is the state of one session. It is not safe for concurrent use. Bytes handed out stay valid until the next call
// in the same direction.
type Engine struct {
	cfg     *Config
	rec     Recorder
	start   Startup
	session tokens.Session

	phase  phase
	pause  pause
	fatal  bool   // the session is over; nothing is forwarded any more
	words  []byte // what the client is told about that
	ending bool   // the server is ending it: its last words pass, nothing else does

	client assembly
	server assembly
	cmem   []byte // what FromClient, Announced and a resume make; reused per call
	smem   []byte // what FromServer makes; reused per call
	act    action

	slots       slots
	names       names
	segment     uint64 // number of the current Sync segment, from 1
	open        bool   // messages of the extended protocol were sent since the last Sync or Query
	syncs       int    // Syncs, Queries and FunctionCalls that wait for their ReadyForQuery
	skipping    bool   // the server ignores messages up to the next Sync, which was not sent yet
	copyIn      bool   // the server reads copy data: it ignores Flush and Sync
	copying     copying
	behindGuard bool // the last Query was sent behind a guard that the server has not answered
	dataSent    bool // CopyData was sent since the last message that was looked at

	tx       transaction
	readOnly sentReadOnly
	token    tokenState
	doubt    doubts
	reserved reservedSet
	marks    []tokens.Mark // by fence; Name "" when unknown; of a pattern that of the last name announced
	patterns bool          // some fence is a pattern
	fasts    []fastGuard   // by fence
	runs     runPool

	analyzer    *rewrite.Analyzer
	ddl         rewrite.CatalogChange // by what was sent since the session was last outside a transaction
	ddlUntil    uint64                // the segment that the last of it was sent in
	ddlChained  uint64                // the segment that a COMMIT or ROLLBACK AND CHAIN behind it was sent in, 0 for none
	chainSent   bool                  // sentStatement met one, and no DDL behind it
	ddlInDoubt  bool                  // other sessions cannot rely on columns for it
	ddlLeads    bool                  // there may be new ways to a fence when it is committed
	ownViews    bool                  // temporary ones were made
	lookDue     bool                  // it may be committed, and nobody has looked since
	savepoints  bool                  // there may be some: a failed transaction is not lost
	scratch     rewrite.Scratch
	settings    rewrite.Settings
	lexing      lexing
	encoding    string // client_encoding as reported
	serverMajor int    // major version of the server as reported, 0 if it is not known
	bytewise    bool   // it is not UTF8
	transcoded  []byte
	starts      []int32
	patches     []rewrite.Patch

	toAnnounce    tokens.List
	toAnnounceRaw string
	announced     string // value of fence.token that was announced last in this session
	announceAsked bool   // the held message's announce was answered by refused or announced
	refused       *tokens.Error
	asked         bool // the held message's question was answered
	probe         probe
	about         uint64 // shape of the text that the current message is about
	passed        bool   // in mode off: something was sent since the last ReadyForQuery
	question      questionAnswer
	shadow        shadow
}

// doubts are about names: an opaque statement may have prepared, deallocated or opened anything.
type doubts struct {
	statements bool
	cursors    bool
}

var (
	errFrame     = errors.New("invalid message length")
	errMalformed = errors.New("malformed message")
	// errInCopy: in COPY-IN PostgreSQL ends a session that sends anything but copy data (08P01), unless the copy has
	// failed meanwhile: then the message counts, and is guarded. But if a Sync was sent before it, nobody can tell
	// whether the server has ignored that Sync (still copying) or answered it (failed by then), and so whether the message
	// is skipped; a client that has not seen the failure had no business to send it.
	errInCopy = errors.New("unexpected message during COPY from stdin")
)

// NewEngine makes the engine of a session whose startup packet was just forwarded. A nil rec counts nothing.
func NewEngine(cfg *Config, rec Recorder, start Startup) *Engine {
	if rec == nil {
		rec = discard{}
	}
	e := &Engine{cfg: cfg, rec: rec, start: start, segment: 1, reserved: newReservedSet()}
	e.tx.state = wire.TxIdle
	e.analyzer = cfg.Analyzer
	e.token.guess = present(start.Token)
	e.marks = make([]tokens.Mark, len(cfg.Fences))
	e.patterns = anyPattern(cfg.Fences)
	return e
}

// InTransaction reports whether ending the session now would break something off: a transaction, or messages that wait
// for their replies.
func (e *Engine) InTransaction() bool {
	if e.cfg.Mode == ModeOff {
		return e.tx.state != wire.TxIdle || e.syncs > 0
	}
	return e.tx.state != wire.TxIdle || e.slots.front() != nil || e.pause > pauseLogin || e.client.partial()
}

// Ready reports whether the client has been told that the session is ready.
func (e *Engine) Ready() bool { return e.phase == phaseReady }

func (e *Engine) enforcing() bool { return e.cfg.Mode == ModeEnforce }

// transaction is what the engine knows of the session's transaction.
type transaction struct {
	state    byte // of the last ReadyForQuery
	changing int  // unanswered messages that may begin, end or change a transaction
	// block: inside an explicit block that nothing sent so far can have left.
	block bool
	// aborted: inside a failed block that nothing sent so far can have left. PostgreSQL refuses whatever comes but the end of
	// the transaction, and the client gets the error that it would get without a guard in front.
	aborted bool
	// epoch counts what may have ended the transaction or rolled back to a savepoint.
	epoch uint64
	// touched: the transaction has written or locked something or was guarded, as far as sent; now for the current
	// segment, before for those sent earlier.
	touchedNow, touchedBefore bool
	failed                    bool // an error since the last ReadyForQuery 'I'
	held                      heldGuards
	// madeReadOnly: something was sent behind a guard that makes the transaction read-only; released: and a RELEASE SAVEPOINT
	// behind that, which may have ended it. What was left to be run at COMMIT (cursors WITH HOLD, deferred triggers) would run
	// without.
	madeReadOnly, released bool
	// implicit: the Query of this segment was sent behind messages without a Sync. From PostgreSQL 18 on it goes on in their
	// transaction, with ReadyForQuery 'T', and the next Sync ends that (postgres.c start_xact_command); 0 for none.
	implicit uint64
}

// disturb: a message that may change the transaction was sent.
func (t *transaction) disturb() {
	t.epoch++
	t.block, t.aborted = false, false
}

// boundary: a Sync or Query was sent. Outside a block it ends the implicit transaction.
func (t *transaction) boundary() {
	if !t.block {
		t.disturb()
	}
	t.touchedBefore = t.touchedBefore || t.touchedNow
	t.touchedNow = false
}

// heldGuards are the fences whose guard the server has confirmed in this transaction and for this token.
type heldGuards struct {
	fences  rewrite.FenceSet
	rows    rewrite.FenceSet // demand.rows
	session bool
	// readOnly: the transaction is read-only, or the session has a token.
	readOnly bool
	epoch    uint64 // transaction.epoch
	serial   uint64 // tokenState.serial
}

func (e *Engine) heldNow() *heldGuards {
	h := &e.tx.held
	if !e.tx.block || h.epoch != e.tx.epoch || h.serial != e.token.serial {
		return nil
	}
	return h
}
