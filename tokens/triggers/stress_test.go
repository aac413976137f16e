package triggers

import (
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The guarantee itself, held by triggers alone: sessions at all isolation levels write without a proxy, directly and
// through a procedure that commits, under tokens old and new while marks rise. The order of commits is that of logical
// decoding. Without the triggers the same run must show violations, or it could show none at all.
func TestStressOracle(t *testing.T) {
	for _, guarded := range []bool{true, false} {
		w := shared(t, `CREATE TABLE written (token bigint) PARTITION BY RANGE (token); CREATE TABLE written_1 PARTITION OF written FOR VALUES FROM (0) TO (1000000);
			CREATE PROCEDURE write(n bigint) LANGUAGE plpgsql AS 'BEGIN COMMIT; INSERT INTO written_1 VALUES (n); PERFORM pg_sleep(0.001); COMMIT; END'`)
		if guarded {
			w.install(config("written"))
		}
		below, decreases, writes, raises := w.stress()
		t.Logf("guarded %v: %d raises, %d committed writes, %d below the mark, %d decreases", guarded, raises, writes, below, decreases)
		if writes < 50 || raises < 20 {
			t.Errorf("too little happened: %d raises, %d writes", raises, writes)
		}
		if sound := below+decreases == 0; sound != guarded {
			t.Errorf("guarded %v: %d below the mark, %d decreases", guarded, below, decreases)
		}
	}
}

func (w *world) stress() (below, decreases, writes, raises int) {
	slot := "oracle_" + w.db
	w.su.must("SELECT pg_create_logical_replication_slot('" + slot + "', 'test_decoding')")
	defer w.su.must("SELECT pg_drop_replication_slot('" + slot + "')")
	var current atomic.Int64
	current.Store(34)
	stop := make(chan struct{})
	var busy sync.WaitGroup
	for i := range 9 {
		s := w.dial("app")
		random := rand.New(rand.NewSource(int64(i)))
		busy.Go(func() {
			for tok := int64(34); ; {
				select {
				case <-stop:
					return
				default:
				}
				if random.Intn(4) == 0 {
					tok = current.Load()
				}
				s.do(fmt.Sprintf("SET fence.token = '%d'", tok))
				if i == 8 {
					if s.do(fmt.Sprintf("CALL write(%d)", tok)) != "ok" {
						tok = current.Load()
					}
					continue
				}
				s.do("BEGIN ISOLATION LEVEL " + levels[i%3])
				if random.Intn(2) == 0 { // a snapshot that gets old
					s.do("SELECT count(*) FROM written WHERE token < 0")
					time.Sleep(time.Duration(random.Intn(8)) * time.Millisecond)
				}
				if s.do(fmt.Sprintf("INSERT INTO %s VALUES (%d)", []string{"written", "written_1"}[random.Intn(2)], tok)) != "ok" {
					tok = current.Load()
				} else {
					time.Sleep(time.Duration(random.Intn(4)) * time.Millisecond)
				}
				s.do("COMMIT")
			}
		})
	}
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); time.Sleep(3 * time.Millisecond) {
		n := current.Load() + 1
		w.su.must(fmt.Sprintf("SELECT fence.raise('f', 0, %d, 'x', NULL)", n))
		current.Store(n)
		raises++
	}
	close(stop)
	busy.Wait()
	changes := w.su.do("SELECT data FROM pg_logical_slot_get_changes('" + slot + "', NULL, NULL) WHERE data LIKE 'table fence.mark: UPDATE%' OR data LIKE 'table public.written_1: INSERT%'")
	mark, last := int64(34), int64(0)
	for _, c := range strings.Split(strings.TrimPrefix(changes, "ok:"), "|") {
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
