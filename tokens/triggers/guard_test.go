package triggers

import "testing"

var levels = []string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}

const one = "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL DEFAULT 0); INSERT INTO t SELECT i, 0 FROM generate_series(1, 10) i"

// I2: what a trigger let pass holds the fence until its transaction ends. Mutant "has_mark without the lock": the raise
// does not wait.
func TestRaiseWaitsForGuardedWrite(t *testing.T) {
	for _, level := range levels {
		for _, way := range []string{"UPDATE t SET v = v + 1 WHERE id = 1", "CALL p()"} {
			t.Run(level+"/"+way, func(t *testing.T) {
				w := shared(t, one+"; CREATE PROCEDURE p() LANGUAGE sql AS 'UPDATE t SET v = 1 WHERE id = 1'")
				w.install(config("t"))
				a, b := w.dial("app").token("34"), w.dial("postgres")
				a.must("BEGIN ISOLATION LEVEL " + level)
				a.must(way)
				p := b.start("SELECT r.raised FROM fence.raise('f', 0, 35, 'test', NULL) r")
				expect(t, "raise", p.state(), "waits")
				a.must("COMMIT")
				expect(t, "raise", p.get(), "ok:t")
				a.must("BEGIN ISOLATION LEVEL " + level)
				expect(t, "later", a.do(way), "ZF001")
				a.must("ROLLBACK")
			})
		}
	}
}

// I2: a snapshot older than the raise shows the old mark. Mutant "has_mark without the xmax rule": a stale write passes
// above READ COMMITTED.
func TestSnapshotOlderThanTheRaise(t *testing.T) {
	for _, level := range levels {
		w := shared(t, one)
		w.install(config("t"))
		a := w.dial("app").token("34")
		a.must("BEGIN ISOLATION LEVEL " + level)
		a.must("SELECT count(*) FROM t")
		w.su.must("SELECT fence.raise('f', 0, 35, 'test', NULL)")
		want := "40001"
		if level == levels[0] {
			want = "ZF001"
		}
		expect(t, level, a.do("UPDATE t SET v = 1 WHERE id = 1"), want)
		a.must("ROLLBACK")
		a.must("BEGIN ISOLATION LEVEL " + level)
		expect(t, level+", again", a.do("UPDATE t SET v = 1 WHERE id = 1"), "ZF001")
		a.must("ROLLBACK")
	}
}

// A write that waits for a raise sees what it has done.
func TestWriteWaitsForARaise(t *testing.T) {
	for _, tt := range []struct{ end, want string }{{"COMMIT", "ZF001"}, {"ROLLBACK", "ok"}} {
		w := shared(t, one)
		w.install(config("t"))
		a := w.dial("app").token("34")
		w.su.must("BEGIN; SELECT fence.raise('f', 0, 35, 'test', NULL)")
		p := a.start("UPDATE t SET v = 1 WHERE id = 1")
		other := w.dial("postgres")
		eventually(t, "waits", func() bool {
			return other.do("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") != "ok"
		})
		w.su.must(tt.end)
		expect(t, tt.end, p.get(), tt.want)
	}
}

// The lock goes with the savepoint; the next write takes it again and sees the new mark. Nothing is remembered from
// statement to statement. Mutant "a setting says that the fence is held": the last write passes.
func TestSubtransactions(t *testing.T) {
	for _, level := range levels {
		for what, rolledBack := range map[string]string{
			"savepoint": "SAVEPOINT s; UPDATE t SET v = 1 WHERE id = 1; ROLLBACK TO s",
			"exception": "DO $$ BEGIN UPDATE t SET v = 1 WHERE id = 1; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END $$",
		} {
			w := shared(t, one)
			w.install(config("t"))
			a := w.dial("app").token("34")
			a.must("BEGIN ISOLATION LEVEL " + level)
			a.must(rolledBack)
			expect(t, what+": raise", w.su.do("SELECT r.raised FROM fence.raise('f', 0, 35, 'test', NULL) r"), "ok:t")
			want := "40001"
			if level == levels[0] {
				want = "ZF001"
			}
			expect(t, level+", "+what, a.do("UPDATE t SET v = 1 WHERE id = 1"), want)
			a.must("ROLLBACK")
		}
	}
	w := shared(t, one)
	w.install(config("t"))
	a := w.dial("app").token("34")
	a.must("BEGIN; UPDATE t SET v = 1 WHERE id = 1; SAVEPOINT s; UPDATE t SET v = 2 WHERE id = 1; ROLLBACK TO s")
	p := w.start("SELECT fence.raise('f', 0, 35, 'test', NULL)")
	expect(t, "a lock older than the savepoint stays", p.state(), "waits")
	a.must("COMMIT")
	p.get()
}

func (w *world) start(sql string) *pending { return w.dial("postgres").start(sql) }

// A client in READ ONLY hears PostgreSQL's own error.
func TestReadOnly(t *testing.T) {
	w := shared(t, one)
	w.install(config("t"))
	for _, raw := range []string{"33", "34", ""} {
		a := w.dial("app").token(raw)
		expect(t, "token "+raw, a.do("BEGIN READ ONLY; UPDATE t SET v = 1 WHERE id = 1"), "25006")
		a.must("ROLLBACK")
		expect(t, "reading, token "+raw, a.do("SELECT count(*) FROM t"), "ok:10")
		expect(t, "locking rows, token "+raw, a.do("SELECT id FROM t WHERE id = 1 FOR UPDATE"), "ok:1")
	}
}

// A prepared transaction keeps the fence.
func TestPreparedTransactionHolds(t *testing.T) {
	w := shared(t, one)
	w.install(config("t"))
	a := w.dial("app").token("34")
	a.must("BEGIN; UPDATE t SET v = 1 WHERE id = 1; PREPARE TRANSACTION 'held_" + w.db + "'")
	p := w.start("SELECT fence.raise('f', 0, 35, 'test', NULL)")
	expect(t, "raise", p.state(), "waits")
	a.must("COMMIT PREPARED 'held_" + w.db + "'")
	p.get()
}

// A table of two fences needs both tokens.
func TestTwoFences(t *testing.T) {
	w := shared(t, one)
	w.su.must("SELECT fence.raise('g', 0, 7, 'seed', NULL)")
	c := config("t")
	c.Fences = append(c.Fences, c.Fences[0])
	c.Fences[0].Name = "g"
	w.install(c)
	for raw, want := range map[string]string{"34,g=7": "ok", "f=34,g=7": "ok", "34": "ZF002", "g=7": "ZF002", "33,g=7": "ZF001", "34,g=6": "ZF001", "34,g=8": "ZF006"} {
		expect(t, raw, w.dial("app").token(raw).do("UPDATE t SET v = 1 WHERE id = 1"), want)
	}
}

// A fence with an epoch, and one whose mark knows its timeline (of the lease table).
func TestTokensOfOtherForms(t *testing.T) {
	w := shared(t, one)
	w.install(config("t"))
	w.su.must("SELECT fence.bump_epoch('f', 'test')")
	w.su.must("SELECT fence.raise('f', 1, 5, 'test', NULL)")
	for raw, want := range map[string]string{"1.5": "ok", "f=1.5": "ok", " 1.5 ": "ok", "01.05": "ok", "5": "ZF001", "f=5": "ZF001", "1.4": "ZF001", "0.34": "ZF001", "2.0": "ZF006", "x": "ZF003", "1.5,f=1.4": "ZF003"} {
		expect(t, raw, w.dial("app").token(raw).do("UPDATE t SET v = 1 WHERE id = 1"), want)
	}
	a := w.dial("app").token("1.5")
	w.su.must("UPDATE fence.mark SET timeline = '00000001'")
	expect(t, "issued on this timeline", a.do("UPDATE t SET v = 1 WHERE id = 1"), "ok")
	w.su.must("UPDATE fence.mark SET timeline = '00000002'")
	expect(t, "issued on another timeline", a.do("UPDATE t SET v = 1 WHERE id = 1"), "ZF001")
}

// A fence that is a pattern: every token of the session that it matches is guarded.
func TestPatternFence(t *testing.T) {
	w := shared(t, one)
	w.su.must("SELECT fence.raise('jobs/42', 0, 7, 'seed', NULL), fence.raise('jobs/43', 0, 9, 'seed', NULL)")
	c := config("t")
	c.Fences[0].Name, c.Bare = "jobs/*", ""
	w.install(c)
	for raw, want := range map[string]string{"jobs/42=7": "ok", "jobs/42=7,jobs/43=9": "ok", "jobs/42=6": "ZF001", "jobs/42=7,jobs/43=8": "ZF001", "jobs/44=1": "ZF006", "f=34": "ZF002", "34": "ZF002", "": "ZF002"} {
		expect(t, raw, w.dial("app").token(raw).do("UPDATE t SET v = 1 WHERE id = 1"), want)
	}
	a := w.dial("app").token("jobs/42=7")
	a.must("BEGIN; UPDATE t SET v = 1 WHERE id = 1")
	p := w.start("SELECT fence.raise('jobs/42', 0, 8, 'test', NULL)")
	expect(t, "raise", p.state(), "waits")
	a.must("COMMIT")
	p.get()
}
