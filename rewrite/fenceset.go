package rewrite

import (
	"iter"
	"math/bits"
	"slices"
)

// newFenceSet returns the set of the fences with the given indexes.
func newFenceSet(fences ...int) FenceSet {
	if len(fences) == 0 {
		return FenceSet{}
	}
	words := make([]uint64, slices.Max(fences)/64+1)
	for _, i := range fences {
		words[i/64] |= 1 << (i % 64)
	}
	return FenceSet{words}
}

// OneFence returns the set of the fence with index i.
func OneFence(i int) FenceSet { return newFenceSet(i) }

// Has reports whether the fence with index i is in the set.
func (s FenceSet) Has(i int) bool {
	return i >= 0 && i/64 < len(s.words) && s.words[i/64]&(1<<(i%64)) != 0
}

// Empty reports whether no fence is in the set.
func (s FenceSet) Empty() bool {
	for _, w := range s.words {
		if w != 0 {
			return false
		}
	}
	return true
}

// Len returns the number of fences in the set.
func (s FenceSet) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// Union returns the fences in s or t. It allocates only if neither holds the other; neither is changed.
func (s FenceSet) Union(t FenceSet) FenceSet {
	switch {
	case t.within(s):
		return s
	case s.within(t):
		return t
	}
	if len(s.words) < len(t.words) {
		s, t = t, s
	}
	words := slices.Clone(s.words)
	for i, w := range t.words {
		words[i] |= w
	}
	return FenceSet{words}
}

func (s FenceSet) within(t FenceSet) bool {
	for i, w := range s.words {
		if i < len(t.words) {
			w &^= t.words[i]
		}
		if w != 0 {
			return false
		}
	}
	return true
}

// without returns the fences in s that are not in t.
func (s FenceSet) without(t FenceSet) FenceSet {
	words := slices.Clone(s.words)
	for i := range words {
		if i < len(t.words) {
			words[i] &^= t.words[i]
		}
	}
	return FenceSet{words}
}

// Equal reports whether both sets hold the same fences.
func (s FenceSet) Equal(t FenceSet) bool { return s.within(t) && t.within(s) }

// All yields the indexes of the fences in Config.Fences, ascending.
func (s FenceSet) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s.words {
			for ; w != 0; w &= w - 1 {
				if !yield(i*64 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// Names returns the names of the fences in the order of cfg.Fences. cfg is the configuration that the set was made under.
func (s FenceSet) Names(cfg Config) []string {
	var names []string
	for i := range s.All() {
		names = append(names, cfg.Fences[i].Name)
	}
	return names
}
