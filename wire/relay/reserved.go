package relay

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"

	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// reserved is a prepared statement of the engine's own in the server session. Those from reservedCount on are pairs, lock
// and read, for one fence each.
type reserved uint8

const (
	reservedLock     reserved = iota // first step of the fast guard
	reservedRead                     // second step of the fast guard
	reservedGuard                    // slow guard
	reservedSession                  // guard of all of the session's fences
	reservedReadOnly                 // the same, which makes the transaction read-only if the session has none
	reservedPattern                  // guard of a pattern, or of the session's named tokens for a fence
	reservedCount
)

// maxPairs bounds the fences that have statements of their own in a server session, which keeps their plans.
const maxPairs = 16

// PostgreSQL type oids (pg_type.dat). Declared, so that the server never has to guess.
const (
	oidBool      = 16
	oidInt8      = 20
	oidInt4      = 23
	oidText      = 25
	oidTextArray = 1009
)

// reservedStatement is one of them, as far as the server session has it.
type reservedStatement struct {
	name      string
	sql       string
	oids      []uint32
	confirmed bool
	sentIn    uint64 // segment of the last Parse, 0 for none
	attempt   uint64 // number of the last Parse sent
}

// reservedSet keeps which of the reserved statements the server session has. Their names are random: an application that
// knew them could prepare something harmless under them (a DO block can) and so switch the guard off.
type reservedSet struct {
	prefix string
	list   []reservedStatement
	lost   uint64 // counts what was sent that may drop or replace them
}

func newReservedSet() reservedSet {
	var b [9]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return makeReservedSet("_fence_" + hex.EncodeToString(b[:]))
}

func makeReservedSet(prefix string) reservedSet {
	r := reservedSet{prefix: prefix}
	r.add(tokens.GuardLockSQL, oidInt4)
	r.add(tokens.GuardReadSQL, oidInt4, oidText, oidText, oidInt8, oidInt8, oidText)
	r.add(tokens.GuardSQL, oidTextArray, oidText)
	r.add(tokens.GuardSessionSQL, oidText, oidBool)
	r.add(tokens.GuardReadOnlySQL, oidText, oidBool)
	r.add(tokens.GuardPatternSQL, oidText, oidText, oidBool)
	return r
}

func (r *reservedSet) add(sql string, oids ...uint32) reserved {
	s := reserved(len(r.list))
	r.list = append(r.list, reservedStatement{name: r.prefix + strconv.Itoa(int(s)), sql: sql, oids: oids})
	return s
}

// pair makes room for the statements of one more fence and returns the first of the two, or 0 if there is none.
func (r *reservedSet) pair() reserved {
	if len(r.list) >= int(reservedCount)+2*maxPairs {
		return 0
	}
	lock := r.add("")
	r.add("")
	return lock
}

// define changes the text of a statement. What the server has under its name does not count any more.
func (r *reservedSet) define(s reserved, sql string) {
	if t := &r.list[s]; t.sql != sql {
		*t = reservedStatement{name: t.name, sql: sql, attempt: t.attempt + 1}
	}
}

func (r *reservedSet) name(s reserved) string { return r.list[s].name }
func (r *reservedSet) portal() string         { return r.prefix + "p" }
func (r *reservedSet) poison() string         { return r.prefix + "x" }

// owns reports whether a name that the client uses is the engine's.
func (r *reservedSet) owns(name []byte) bool {
	return len(name) >= len(r.prefix) && string(name[:len(r.prefix)]) == r.prefix
}

func (r *reservedSet) ownsString(name string) bool {
	return len(name) >= len(r.prefix) && name[:len(r.prefix)] == r.prefix
}

// present reports whether a Bind in this segment can rely on the statement. A Parse sent in the same segment counts: if
// the server skipped or refused it, it also skips the Bind.
func (r *reservedSet) present(s reserved, segment uint64) bool {
	return r.list[s].confirmed || r.list[s].sentIn == segment
}

// pending reports whether the server has the statement, or has been sent it and may have it soon.
func (r *reservedSet) pending(s reserved) bool { return r.list[s].confirmed || r.list[s].sentIn != 0 }

// appendPrepare appends Close and Parse: whatever the server has under the name, afterwards it has ours.
func (r *reservedSet) appendPrepare(dst []byte, s reserved) []byte {
	t := &r.list[s]
	dst = wire.AppendClose(dst, wire.TargetStatement, t.name)
	return wire.AppendParse(dst, t.name, t.sql, t.oids...)
}

// lose: something that may drop or replace prepared statements was sent. What was sent in front of it and is confirmed
// later does not count any more: the order of sending is the order of execution.
func (r *reservedSet) lose() {
	for s := range r.list {
		t := &r.list[s]
		t.confirmed, t.sentIn = false, 0
		t.attempt++
	}
	r.lost++
}

// sent notes that a Parse was sent and returns its number.
func (r *reservedSet) sent(s reserved, segment uint64) (attempt uint64) {
	t := &r.list[s]
	t.confirmed, t.sentIn = false, segment
	t.attempt++
	return t.attempt
}

// answered: the Parse with that number has succeeded, or not. Only the last one sent counts: each has a Close in front
// that drops what the one before has made.
func (r *reservedSet) answered(s reserved, attempt uint64, ok bool) {
	if r.list[s].attempt == attempt {
		r.list[s].confirmed = ok
	}
}
