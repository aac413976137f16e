package postgres

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// KeyForm says how the name of a lock becomes the key of an advisory lock.
type KeyForm string

const (
	Hash KeyForm = "hash" // HashKey of the name
	Pair KeyForm = "pair" // the name is "7:42", two int4
)

// Key of an advisory lock. The two kinds never collide, nor does either with the keys that fences use for themselves:
// pairs with 1178947139 or 1178947140 in front, which PairKey refuses.
type Key struct {
	hash   int64
	a, b   int32
	isPair bool
}

// HashKey is the first 8 bytes of the name's SHA-256, big-endian, as int8. In SQL, for other programs that share the lock:
//
//	('x' || left(encode(sha256(convert_to(name, 'UTF8')), 'hex'), 16))::bit(64)::int8
//
// Two names share a key with a probability of 2^-64; hashtext(), with its 2^-32, finds a pair among 77,000 names.
func HashKey(name string) Key {
	sum := sha256.Sum256([]byte(name))
	return Key{hash: int64(binary.BigEndian.Uint64(sum[:8]))}
}

// PairKey is a key of two int4, as in pg_advisory_lock(7, 42).
func PairKey(a, b int32) (Key, error) {
	if a == 1178947139 || a == 1178947140 {
		return Key{}, fmt.Errorf("advisory lock (%d, %d): the keys of fences are not for locks", a, b)
	}
	return Key{a: a, b: b, isPair: true}, nil
}

func (f KeyForm) key(name string) (Key, error) {
	if f == Hash {
		return HashKey(name), nil
	}
	first, second, ok := strings.Cut(name, ":")
	a, err1 := strconv.ParseInt(first, 10, 32)
	b, err2 := strconv.ParseInt(second, 10, 32)
	if !ok || err1 != nil || err2 != nil {
		return Key{}, fmt.Errorf("lock %q: with keys=pair a name is two int4, e.g. 7:42", name)
	}
	return PairKey(int32(a), int32(b))
}

// args are the parameters key, k1, k2 of the advisory functions of the schema.
func (k Key) args() []any {
	if k.isPair {
		return []any{nil, k.a, k.b}
	}
	return []any{k.hash, nil, nil}
}

// call is a call of one of PostgreSQL's own functions.
func (k Key) call(function string) string {
	if k.isPair {
		return fmt.Sprintf("pg_catalog.%s(%d::int4, %d::int4)", function, k.a, k.b)
	}
	return fmt.Sprintf("pg_catalog.%s(%d::int8)", function, k.hash)
}

// LockTx waits for the lock and holds it until the transaction ends, also through a transaction pooler. There is no token
// and no lease: who holds the lock is the transaction that writes, so it is lost with the writes or not at all. In
// REPEATABLE READ take it first: a transaction's snapshot is as old as its first statement.
func LockTx(ctx context.Context, tx pgx.Tx, k Key) error {
	_, err := tx.Exec(ctx, "SELECT "+k.call("pg_advisory_xact_lock"))
	return err
}

// TryLockTx is LockTx without waiting; false when somebody else has the lock.
func TryLockTx(ctx context.Context, tx pgx.Tx, k Key) (locked bool, err error) {
	err = tx.QueryRow(ctx, "SELECT "+k.call("pg_try_advisory_xact_lock")).Scan(&locked)
	return locked, err
}

// LockSQLTx is LockTx for database/sql.
func LockSQLTx(ctx context.Context, tx *sql.Tx, k Key) error {
	_, err := tx.ExecContext(ctx, "SELECT "+k.call("pg_advisory_xact_lock"))
	return err
}

// TryLockSQLTx is TryLockTx for database/sql.
func TryLockSQLTx(ctx context.Context, tx *sql.Tx, k Key) (locked bool, err error) {
	err = tx.QueryRowContext(ctx, "SELECT "+k.call("pg_try_advisory_xact_lock")).Scan(&locked)
	return locked, err
}
