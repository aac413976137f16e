package logging

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

type drops struct {
	mu sync.Mutex
	n  map[DropReason]int
}

func (d *drops) add(r DropReason) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.n == nil {
		d.n = map[DropReason]int{}
	}
	d.n[r]++
}

func TestDecisionsAreAppendedAndReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	var lost drops
	d := NewDecisions(path, nil, lost.add)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("the file exists although the log is off")
	}
	if err := d.Set("all", 0); err != nil {
		t.Fatal(err)
	}
	lines := func(file string, n int) {
		t.Helper()
		var got string
		for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
			b, _ := os.ReadFile(file)
			if got = string(b); strings.Count(got, "\n") == n {
				return
			}
		}
		t.Errorf("%s holds %q, want %d lines", file, got, n)
	}
	d.Log([]zap.Field{zap.String("fence", "billing")})
	lines(path, 1)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := d.Reopen(); err != nil {
		t.Fatal(err)
	}
	d.Log(nil)
	d.Log(nil)
	d.Close()
	lines(path+".1", 1)
	lines(path, 2)
	if len(lost.n) > 0 {
		t.Errorf("dropped: %v", lost.n)
	}
	if b, _ := os.ReadFile(path + ".1"); !strings.HasPrefix(string(b), `{"time":"`) || !strings.HasSuffix(string(b), `,"fence":"billing"}`+"\n") {
		t.Errorf("%q", b)
	}
	if err := NewDecisions("/nowhere/x", nil, lost.add).Set("all", 0); err == nil || !strings.HasPrefix(err.Error(), "decision log: open /nowhere/x") {
		t.Error(err)
	}
}

// A writer that hangs costs lines, never time.
func TestDecisionsNeverBlock(t *testing.T) {
	hang := make(chan struct{})
	var lost drops
	d := NewDecisions("", zapcore.AddSync(writerFunc(func(b []byte) (int, error) { <-hang; return len(b), nil })), lost.add)
	d.Set("all", 0)
	begin := time.Now()
	for range maxDecisions + 100 {
		d.Log(nil)
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("%v for %d lines", took, maxDecisions)
	}
	if lost.n[DropQueue] < 99 {
		t.Errorf("dropped: %v", lost.n)
	}
	close(hang)
	d.Close()
}

func TestDecisionsAreBounded(t *testing.T) {
	var out bytes.Buffer
	var lost drops
	d := NewDecisions("", zapcore.AddSync(&out), lost.add)
	now := time.Unix(100, 0)
	d.now = func() time.Time { return now }
	d.Set("rejections", 10)
	for range 100 {
		d.Log(nil)
	}
	now = now.Add(time.Second)
	for range 5 {
		d.Log(nil)
	}
	d.Close()
	if n := strings.Count(out.String(), "\n"); n != 15 || lost.n[DropRate] != 90 {
		t.Errorf("%d lines, dropped %v", n, lost.n)
	}
}

func TestDecisionsThatCannotBeWritten(t *testing.T) {
	var lost drops
	d := NewDecisions("", zapcore.AddSync(writerFunc(func([]byte) (int, error) { return 0, errors.New("disk full") })), lost.add)
	d.Set("all", 0)
	d.Log(nil)
	d.Close()
	if lost.n[DropWrite] != 1 {
		t.Errorf("dropped: %v", lost.n)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
