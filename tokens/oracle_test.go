package tokens

import (
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The guarantee itself, with PostgreSQL's own commit order as the oracle: sessions at all isolation levels write under
// tokens old and new while marks rise every few milliseconds; logical decoding then shows what committed in which
// order. No write may come after a mark higher than its token, and tokens may not decrease.
//
// The last two cases are mutants of the guard: there the oracle must find violations, or it could find none at all.
func TestStressOracle(t *testing.T) {
	for _, tt := range []struct {
		name  string
		guard func(s *session, m Mark, tok int64) string
		sound bool
	}{
		{"guard", formGuard(slow), true},
		{"guard1", formGuard(fast), true},
		{"inline", formGuard(inline), true},
		{"mutant without the lock", func(s *session, m Mark, tok int64) string {
			return s.do("SELECT CASE WHEN $2 < token THEN fence.guard(ARRAY[name], name) END FROM fence.mark WHERE id = $1", m.ID, tok)
		}, false},
		{"mutant without the xmax rule", func(s *session, m Mark, tok int64) string {
			if got := s.do(GuardLockSQL, m.ID); got != "ok" {
				return got
			}
			return s.do("SELECT CASE WHEN $2 < token THEN fence.guard(ARRAY[name], name) END FROM fence.mark WHERE id = $1", m.ID, tok)
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := ownWorld(t, newWorld(t).c)
			below, decreases, writes, raises := w.stress(tt.guard)
			t.Logf("%d raises, %d committed writes, %d below the mark, %d decreases", raises, writes, below, decreases)
			if writes < 50 || raises < 20 {
				t.Errorf("too little happened: %d raises, %d writes", raises, writes)
			}
			if sound := below+decreases == 0; sound != tt.sound {
				t.Errorf("%d below the mark, %d decreases", below, decreases)
			}
		})
	}
}

func formGuard(g form) func(*session, Mark, int64) string {
	return func(s *session, m Mark, tok int64) string {
		return s.guardAs(g, m, s.raw, Token{Counter: tok}, m.Name)
	}
}

func (w *world) stress(guard func(*session, Mark, int64) string) (below, decreases, writes, raises int) {
	f := w.fence(1)
	m := Mark{ID: w.id(f), Name: f}
	w.su.must("CREATE TABLE written (token bigint)")
	w.su.must("GRANT ALL ON written TO app")
	slot := "oracle_" + f
	w.su.must("SELECT pg_create_logical_replication_slot($1::text, 'test_decoding')", slot)
	defer w.su.must("SELECT pg_drop_replication_slot($1::text)", slot)

	var current atomic.Int64
	current.Store(1)
	stop := make(chan struct{})
	var busy sync.WaitGroup
	for i := range 9 {
		s := w.dial("app")
		random := rand.New(rand.NewSource(int64(i)))
		busy.Go(func() {
			for tok := int64(1); ; {
				select {
				case <-stop:
					return
				default:
				}
				if random.Intn(4) == 0 {
					tok = current.Load()
				}
				s.raw = fmt.Sprint(tok)
				s.do("SELECT set_config('fence.token', $1, false)", s.raw)
				s.do("BEGIN ISOLATION LEVEL " + levels[i%3])
				if random.Intn(2) == 0 { // a snapshot that gets old
					s.do("SELECT count(*) FROM t WHERE id < 3")
					time.Sleep(time.Duration(random.Intn(8)) * time.Millisecond)
				}
				got := guard(s, m, tok)
				if strings.HasPrefix(got, "ok") {
					time.Sleep(time.Duration(random.Intn(4)) * time.Millisecond)
					s.do("INSERT INTO written VALUES ($1)", tok)
				} else {
					tok = current.Load()
				}
				s.do("COMMIT")
			}
		})
	}
	b := w.dial("control")
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); time.Sleep(3 * time.Millisecond) {
		n := current.Load() + 1
		b.must("SELECT fence.raise($1, 0, $2, 'x', NULL)", f, n)
		current.Store(n)
		raises++
	}
	close(stop)
	busy.Wait()

	changes := strings.Split(w.su.do("SELECT data FROM pg_logical_slot_get_changes($1::text, NULL, NULL) WHERE data LIKE 'table fence.mark: UPDATE%' OR data LIKE 'table public.written: INSERT%'", slot), "|")
	mark, last := int64(1), int64(0)
	for _, c := range changes {
		var n int64
		_, value, _ := strings.Cut(c, "token[bigint]:")
		fmt.Sscan(value, &n)
		if strings.Contains(c, "fence.mark") {
			mark = n
			continue
		}
		writes++
		if n < mark {
			below++
		}
		if n < last {
			decreases++
		}
		last = n
	}
	return below, decreases, writes, raises
}
