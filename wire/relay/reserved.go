package relay

import (
	"crypto/rand"
	"encoding/hex"

	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// reserved is a prepared statement of the engine's own in the server session.
type reserved uint8

const (
	reservedLock    reserved = iota // first step of the fast guard
	reservedRead                    // second step of the fast guard
	reservedGuard                   // slow guard
	reservedSession                 // guard of all of the session's fences
	reservedCount
)

// PostgreSQL type oids (pg_type.dat). Declared, so that the server never has to guess.
const (
	oidBool      = 16
	oidInt8      = 20
	oidInt4      = 23
	oidText      = 25
	oidTextArray = 1009
)

var reservedStatements = [reservedCount]struct {
	sql  string
	oids []uint32
}{
	reservedLock:    {tokens.GuardLockSQL, []uint32{oidInt4}},
	reservedRead:    {tokens.GuardReadSQL, []uint32{oidInt4, oidText, oidText, oidInt8, oidInt8, oidText}},
	reservedGuard:   {tokens.GuardSQL, []uint32{oidTextArray, oidText}},
	reservedSession: {tokens.GuardSessionSQL, []uint32{oidText, oidBool}},
}

// reservedSet keeps which of the reserved statements the server session has. Their names are random: an application that
// knew them could prepare something harmless under them (a DO block can) and so switch the guard off.
type reservedSet struct {
	prefix    string
	names     [reservedCount]string
	confirmed [reservedCount]bool
	sentIn    [reservedCount]uint64 // segment of the last Parse, 0 for none
	attempt   [reservedCount]uint64 // number of the last Parse sent
	lost      uint64                // counts what was sent that may drop or replace them
}

func newReservedSet() reservedSet {
	var b [9]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return makeReservedSet("_fence_" + hex.EncodeToString(b[:]))
}

func makeReservedSet(prefix string) reservedSet {
	r := reservedSet{prefix: prefix}
	for s := range r.names {
		r.names[s] = r.prefix + string('a'+rune(s))
	}
	return r
}

func (r *reservedSet) name(s reserved) string { return r.names[s] }
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
	return r.confirmed[s] || r.sentIn[s] == segment
}

// pending reports whether the server has the statement, or has been sent it and may have it soon.
func (r *reservedSet) pending(s reserved) bool { return r.confirmed[s] || r.sentIn[s] != 0 }

// appendPrepare appends Close and Parse: whatever the server has under the name, afterwards it has ours.
func (r *reservedSet) appendPrepare(dst []byte, s reserved) []byte {
	dst = wire.AppendClose(dst, wire.TargetStatement, r.name(s))
	return wire.AppendParse(dst, r.name(s), reservedStatements[s].sql, reservedStatements[s].oids...)
}

// lose: something that may drop or replace prepared statements was sent. What was sent in front of it and is confirmed
// later does not count any more: the order of sending is the order of execution.
func (r *reservedSet) lose() {
	r.confirmed = [reservedCount]bool{}
	r.sentIn = [reservedCount]uint64{}
	r.lost++
	for s := range r.attempt {
		r.attempt[s]++
	}
}

// sent notes that a Parse was sent and returns its number.
func (r *reservedSet) sent(s reserved, segment uint64) (attempt uint64) {
	r.confirmed[s], r.sentIn[s] = false, segment
	r.attempt[s]++
	return r.attempt[s]
}

// answered: the Parse with that number has succeeded, or not. Only the last one sent counts: each has a Close in front
// that drops what the one before has made.
func (r *reservedSet) answered(s reserved, attempt uint64, ok bool) {
	if r.attempt[s] == attempt {
		r.confirmed[s] = ok
	}
}
