package run

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// A key is any text.
func TestOddKeys(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	keys := []string{"key=it's", `key=a"b\c`, "key=two\nlines", "key=Jänner %s $HOME", "key= ", "key=--retry"}
	for _, key := range keys {
		p := w.run("odd", `printf 'ran:%s:' "$FENCE_SLOT"`, "--once-per", key, "--ttl", "1m")
		if p.wantExit(0); p.out.String() != "ran:"+key+":" {
			t.Errorf("%q: %s%s", key, p.out, p.err)
		}
	}
	for _, key := range keys {
		p := w.run("odd", "echo ran", "--once-per", key, "--ttl", "1m")
		p.wantExit(0)
		if p.out.String() != "" || strings.Count(p.err.String(), "\n") != 1 || !strings.Contains(p.err.String(), "was run by") {
			t.Errorf("%q again: %s%s", key, p.out, p.err)
		}
	}
	p := w.run("odd", "echo ran", "--once-per", "key=\xff")
	if p.wantExit(2); !strings.Contains(p.err.String(), "UTF-8") {
		t.Errorf("%s", p.err)
	}
}

// The database of the slots is away when the command ends. It comes back: the slot is recorded. Run dies before: the slot is
// lost, and repeated when asked. Mutant: end asks once.
func TestSlotDatabaseAwayAtTheEnd(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	c := pgtest.Start(t)
	db := c.NewDatabase(t)
	dsn := c.DSN(db, "postgres")
	proxytest.Install(t, dsn)
	for _, dies := range []bool{false, true} {
		key := "key=lives"
		if dies {
			key = "key=dies"
		}
		done := filepath.Join(t.TempDir(), "done")
		p := w.run("nightly", "echo begun; until [ -e "+done+" ]; do sleep 0.02; done", "--once-per", key, "--dsn", dsn, "--ttl", "20s")
		p.says("begun")
		c.Kill()
		if err := os.WriteFile(done, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the command has ended", func() bool { return len(p.children()) == 0 })
		if dies {
			p.kill(syscall.SIGKILL)
			p.exit()
		}
		c.Restart(t)
		again := "was run by"
		if dies {
			again = "lost with its node"
		} else {
			p.wantExit(0)
		}
		p = w.run("nightly", "echo ran", "--once-per", key, "--dsn", dsn, "--ttl", "20s")
		if p.exit(); !strings.Contains(p.err.String(), again) || p.out.String() != "" {
			t.Errorf("%s: %s%s", key, p.out, p.err)
		}
		p = w.run("nightly", "echo ran", "--once-per", key, "--dsn", dsn, "--retry", "--ttl", "20s")
		if p.wantExit(0); strings.Contains(p.out.String(), "ran") != dies {
			t.Errorf("%s, retry: %s%s", key, p.out, p.err)
		}
	}
}
