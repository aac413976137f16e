package rewrite

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestCacheIsBoundedInBytes(t *testing.T) {
	c := newCache(64 << 10)
	plan := &Plan{}
	for i := range 20000 {
		key := []byte(fmt.Sprintf("%d%s", i, strings.Repeat("x", i%3000)))
		c.put(c.hash(key), key, plan, nil)
		if b := c.bytes.Load(); b > c.limit || b < 0 {
			t.Fatalf("%d bytes of %d", b, c.limit)
		}
	}
	var sum int64
	for i := range c.buckets {
		for j := range c.buckets[i] {
			if e := c.buckets[i][j].Load(); e != nil {
				sum += e.size
			}
		}
	}
	if sum != c.bytes.Load() || sum < c.limit/4 {
		t.Errorf("%d bytes held, %d counted, limit %d", sum, c.bytes.Load(), c.limit)
	}
	big := make([]byte, 16<<10)
	if c.put(c.hash(big), big, plan, nil); c.get(c.hash(big), big) != nil {
		t.Error("an entry of a quarter of the cache was kept")
	}
}

func TestCacheKeepsWhatIsUsed(t *testing.T) {
	c := newCache(64 << 10)
	plan := &Plan{}
	hot := []byte("hot")
	c.put(c.hash(hot), hot, plan, nil)
	for i := range 5000 {
		if c.get(c.hash(hot), hot) == nil {
			t.Fatalf("lost after %d others", i)
		}
		key := []byte(fmt.Sprintf("cold %d", i))
		c.put(c.hash(key), key, plan, nil)
	}
}

// A collision of hashes must be a miss.
func TestCacheComparesKeys(t *testing.T) {
	c := newCache(64 << 10)
	a, b := &Plan{Failure: "a"}, &Plan{Failure: "b"}
	c.put(7, []byte("a"), a, nil)
	if c.get(7, []byte("b")) != nil {
		t.Fatal("b has a's plan")
	}
	c.put(7, []byte("b"), b, nil)
	for key, want := range map[string]*Plan{"a": a, "b": b} {
		if e := c.get(7, []byte(key)); e == nil || e.plan != want {
			t.Errorf("%s: %+v", key, e)
		}
	}
	before := c.bytes.Load()
	c.put(7, []byte("b"), a, nil)
	if e := c.get(7, []byte("b")); e.plan != a || c.bytes.Load() != before {
		t.Errorf("replaced: %+v, %d bytes, before %d", e, c.bytes.Load(), before)
	}
}

func TestAnalyzeConcurrently(t *testing.T) {
	cfg := fencesByName
	cfg.CacheBytes = 32 << 10 // so that entries come and go
	a := newAnalyzer(t, cfg)
	texts := corpus()
	want := make([]string, len(texts))
	var sc Scratch
	for i, sql := range texts {
		want[i] = describe(a.Analyze(&sc, []byte(sql), Settings{}), cfg)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			var sc Scratch
			buf := make([]byte, 0, 1024)
			for i := range 3 * len(texts) {
				k := (i*7 + g*13) % len(texts)
				buf = append(buf[:0], texts[k]...)
				an := a.Analyze(&sc, buf, Settings{})
				if got := describe(an, cfg); got != want[k] {
					t.Errorf("%s\n got  %s\n want %s", texts[k], got, want[k])
				}
				for j := range buf { // the text is the caller's again
					buf[j] = 'x'
				}
			}
		})
	}
	wg.Wait()
	if s := a.Stats(); s.Bytes > 2*cfg.CacheBytes || s.Misses == 0 || s.HitsExact == 0 {
		t.Errorf("%+v", s)
	}
}

func TestAnalyzeDoesNotAllocateOnAHit(t *testing.T) {
	a := newAnalyzer(t, fencesByName)
	var sc Scratch
	bulk := []byte("INSERT INTO accounts VALUES (1, 'a')" + strings.Repeat(", (2, 'b')", 400))
	for _, sql := range [][]byte{
		[]byte("BEGIN"), []byte("UPDATE accounts SET a = $1 WHERE id = $2"), []byte("SET fence.token = '34'"), []byte("SELEC 1"),
		[]byte("UPDATE accounts SET a = 1 WHERE id = 7"), []byte("SELECT 1; SELECT 'a'; COMMIT"), []byte("SELECT '\xff'"), bulk,
	} {
		for range 3 {
			a.Analyze(&sc, sql, Settings{})
		}
		if n := testing.AllocsPerRun(100, func() { a.Analyze(&sc, sql, Settings{}) }); n != 0 {
			t.Errorf("%.40s: %v allocations", sql, n)
		}
	}
}

func TestStatsTellHitsFromMisses(t *testing.T) {
	a := newAnalyzer(t, fencesByName)
	var sc Scratch
	for _, sql := range []string{"SELECT 1", "SELECT 2", "SELECT 3", "BEGIN", "BEGIN", "SELEC", "SELEC", "SELECT '", "SET fence.token = '1'", "SET fence.token = '2'", "SET fence.token = '1'"} {
		a.Analyze(&sc, []byte(sql), Settings{})
	}
	s := a.Stats()
	if s.HitsShape != 2 || s.HitsExact != 3 || s.Misses != 6 || s.Unknown != 3 || s.Parses != 5 || s.ParseSeconds <= 0 || s.Bytes <= 0 {
		t.Errorf("%+v", s)
	}
}

// After a huge text a session must not hold the memory that it took.
func TestScratchGivesMemoryBack(t *testing.T) {
	a := newAnalyzer(t, fencesByName)
	var sc Scratch
	a.Analyze(&sc, []byte("SELECT "+strings.Repeat("a,", 50000)+"a"), Settings{})
	if n := 12*cap(sc.tokens) + cap(sc.shape); n > 12*keepTokens+8*keepTokens {
		t.Errorf("%d bytes", n)
	}
}
