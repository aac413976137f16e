package triggers

import (
	"fmt"
	"testing"
)

const uses = "SELECT string_agg(fence || ' ' || role || ' ' || reason, ', ' ORDER BY id) FROM fence.bypassed"

// A role that is allowed, and says why, writes without a token. It is written down once for a session and a reason, and
// only if the write is committed. Mutant "pass_by without its first IF": a role that is not allowed passes.
func TestBypass(t *testing.T) {
	w := shared(t, one+"; CREATE FUNCTION touch() RETURNS void LANGUAGE sql SECURITY DEFINER AS 'UPDATE t SET v = v + 1 WHERE id = 1'")
	w.install(config("t"))
	const write = "UPDATE t SET v = v + 1 WHERE id = 1"
	deploy := w.dial("deploy")
	expect(t, "no token, no reason", deploy.do(write), "ZF002")
	deploy.must("SET fence.bypass = 'ticket 7'")
	expect(t, "not allowed", deploy.do(write), "ZF004")
	expect(t, "not allowed, with the mark", deploy.token("34").do(write), "ZF004")
	deploy.token("")

	expect(t, "who may allow: the role itself", deploy.do("SELECT fence.allow_bypass('deploy', 'me')"), "42501")
	expect(t, "who may allow: write the table", deploy.do("INSERT INTO fence.bypass (role, note) VALUES ('deploy', 'me')"), "42501")
	ops := w.dial("ops")
	expect(t, "a role that is not there", ops.do("SELECT fence.allow_bypass('nobody', 'x')"), "42704")
	expect(t, "no reason", ops.do("SELECT fence.allow_bypass('deploy', ' ')"), "ZF003")
	ops.must("SELECT fence.allow_bypass('deploy', 'migrations')")
	expect(t, "who is allowed, and who said so", ops.do("SELECT role, note, allowed_by FROM fence.bypass"), "ok:deploy|migrations|ops")

	deploy.must("BEGIN; " + write + "; ROLLBACK")
	expect(t, "rolled back: not written down", w.su.do(uses), "ok")
	w.su.must(fmt.Sprintf(`INSERT INTO fence.bypassed (fence, role, pid, started, application, reason)
		SELECT 'f', 'deploy', %d, s, 'earlier', 'ticket 7' FROM unnest(ARRAY['epoch', now()]) s`, deploy.PgConn().PID())) // earlier sessions of the same pid
	expect(t, "allowed", deploy.do(write), "ok")
	expect(t, "again", deploy.do(write+"; "+write), "ok")
	expect(t, "through a function", deploy.do("SELECT touch()"), "ok")
	expect(t, "written down", w.su.do("SELECT count(*) FROM fence.bypassed"), "ok:3")
	w.su.must("DELETE FROM fence.bypassed WHERE application = 'earlier'")
	expect(t, "written down", w.su.do(uses+" WHERE started > now() - interval '1 min'"), "ok:f deploy ticket 7")
	deploy.must("SET fence.bypass = 'ticket 8'")
	deploy.must(write)
	other := w.dial("deploy", "fence.bypass", "ticket 8")
	expect(t, "with a stale token", other.token("33").do(write), "ok")
	expect(t, "with a token in no form", other.token("x").do(write), "ok")
	expect(t, "written down", w.su.do(uses), "ok:f deploy ticket 7, f deploy ticket 8, f deploy ticket 8")
	expect(t, "no reason any more", other.token("34").do("SET fence.bypass = ''; "+write), "ok")
	app := w.dial("app", "fence.bypass", "me too")
	expect(t, "another role", app.do(write), "ZF004")
	expect(t, "another role, as the one that is allowed", app.do("SET ROLE deploy"), "42501")
	w.su.must("GRANT app TO deploy")
	expect(t, "the one that is allowed, as another role", deploy.do("SET ROLE app; "+write+"; RESET ROLE"), "ok")
	w.su.must("REVOKE app FROM deploy")
	expect(t, "a superuser is no exception", w.su.do("SET fence.bypass = 'root'; "+write), "ZF004")
	w.su.must("RESET fence.bypass")
	for _, forge := range []string{"INSERT INTO fence.bypassed (fence, started, application, reason) VALUES ('f', now(), '', 'x')", "DELETE FROM fence.bypassed", "SELECT * FROM fence.bypassed"} {
		expect(t, "the log is not the applications'", deploy.do(forge), "42501")
	}
	expect(t, "no more", ops.do("SELECT fence.forbid_bypass('deploy')"), "ok:t")
	expect(t, "no more", ops.do("SELECT fence.forbid_bypass('deploy')"), "ok:f")
	expect(t, "no longer allowed", deploy.do(write), "ZF004")
}

// The log is bounded, and its cleaning waits for nobody: neither for a transaction that has cleaned and not ended, nor
// does a raise wait for a bypass.
func TestBypassLogIsBounded(t *testing.T) {
	w := shared(t, one)
	w.install(config("t"))
	w.su.must("SELECT fence.allow_bypass('deploy', 'migrations')")
	w.su.must("INSERT INTO fence.bypassed (fence, started, application, reason) SELECT 'f', now(), '', i::text FROM generate_series(1, 1500) i")
	var open []*session
	for i := range 3 {
		s := w.dial("deploy", "fence.bypass", fmt.Sprint("ticket ", i))
		open = append(open, s)
		expect(t, "bypass", s.start(fmt.Sprintf("BEGIN; UPDATE t SET v = 1 WHERE id = %d", i+1)).get(), "ok")
	}
	expect(t, "a raise does not wait", w.start("SELECT r.raised FROM fence.raise('f', 0, 35, 'test', NULL) r").get(), "ok:t")
	for _, s := range open {
		s.must("COMMIT")
	}
	w.dial("deploy", "fence.bypass", "last").must("UPDATE t SET v = 1 WHERE id = 1")
	expect(t, "rows", w.su.do("SELECT count(*) <= 1001 AND count(*) > 900 FROM fence.bypassed"), "ok:t")
}
