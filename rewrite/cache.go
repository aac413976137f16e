package rewrite

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// cache maps texts or shapes to plans. It is bounded in bytes; readers take no lock. Keys are compared byte by byte, so
// a collision of hashes is a miss and never a wrong plan. A bucket is one cache line; within it and, when the bytes run
// out, from bucket to bucket, a clock hand takes entries that nobody has used since its last visit.
type cache struct {
	seed    maphash.Seed
	buckets []bucket // a power of two
	mask    uint64
	limit   int64

	mu    sync.Mutex // writers
	bytes atomic.Int64
	hand  uint64
}

type bucket [8]atomic.Pointer[entry]

type entry struct {
	hash    uint64
	key     string
	plan    *Plan
	starts  []int32 // offsets of the statements; texts only
	patches []Patch
	size    int64
	used    atomic.Bool
}

// entryBytes is the memory that an entry needs beside its key, its plan and its starts.
const entryBytes = 120

func newCache(limit int64) *cache {
	n := uint64(1)
	for int64(n)*2048 < limit {
		n *= 2
	}
	return &cache{seed: maphash.MakeSeed(), buckets: make([]bucket, n), mask: n - 1, limit: limit}
}

func (c *cache) hash(key []byte) uint64 { return maphash.Bytes(c.seed, key) }

func (c *cache) get(h uint64, key []byte) *entry {
	b := &c.buckets[h&c.mask]
	for i := range b {
		e := b[i].Load()
		if e != nil && e.hash == h && e.key == string(key) {
			if !e.used.Load() { // do not write what other readers have in their caches
				e.used.Store(true)
			}
			return e
		}
	}
	return nil
}

// put stores a copy of key. An entry larger than an eighth of the cache is not kept.
func (c *cache) put(h uint64, key []byte, plan *Plan, starts []int32, patches ...Patch) {
	e := &entry{hash: h, plan: plan, starts: starts, patches: patches}
	e.size = int64(len(key)+4*len(starts)+patchBytes*len(patches)+entryBytes) + plan.size()
	if e.size > c.limit/8 {
		return
	}
	e.key = string(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replace(c.victim(&c.buckets[h&c.mask], e), e)
	for c.bytes.Load() > c.limit {
		c.sweep(e)
	}
}

// victim returns the slot of the bucket that e takes: its own, an empty one, or one that was not used lately.
func (c *cache) victim(b *bucket, e *entry) *atomic.Pointer[entry] {
	var free *atomic.Pointer[entry]
	for i := range b {
		switch o := b[i].Load(); {
		case o == nil:
			free = &b[i]
		case o.hash == e.hash && o.key == e.key:
			return &b[i]
		}
	}
	if free != nil {
		return free
	}
	start := int(c.hand)
	c.hand++
	for n := 0; ; n++ {
		s := &b[(start+n)%len(b)]
		if n >= len(b) || !s.Load().used.Swap(false) {
			return s
		}
	}
}

// sweep moves the hand over one bucket, and takes from it what was not used since the last visit.
func (c *cache) sweep(keep *entry) {
	b := &c.buckets[c.hand&c.mask]
	c.hand++
	for i := range b {
		if o := b[i].Load(); o != nil && o != keep && !o.used.Swap(false) {
			c.replace(&b[i], nil)
		}
	}
}

func (c *cache) replace(slot *atomic.Pointer[entry], e *entry) {
	if old := slot.Swap(e); old != nil {
		c.bytes.Add(-old.size)
	}
	if e != nil {
		c.bytes.Add(e.size)
	}
}
