package tokens

import "sync"

// Known remembers marks that were seen, per database. It may reject a token, for a token once stale is stale for ever;
// it never accepts one. The zero Known is ready; all methods may be called concurrently. It holds at most 65,536 marks
// and forgets any of them beyond that, which only costs early rejections.
type Known struct {
	mu    sync.RWMutex
	marks map[knownKey]Mark
}

type knownKey struct{ db, fence string }

const maxKnown = 1 << 16

// Observe notes a mark that the database told. It replaces what is known, also a higher one: the fence schema may have
// been installed anew, or the database restored.
func (k *Known) Observe(db string, m Mark) {
	key := knownKey{db, m.Name}
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.marks[key]
	if k.marks == nil {
		k.marks = make(map[knownKey]Mark)
	}
	if !ok && len(k.marks) >= maxKnown {
		for any := range k.marks {
			delete(k.marks, any)
			break
		}
	}
	k.marks[key] = m
}

// Stale reports whether a mark higher than t is known for the fence, and that mark's token.
func (k *Known) Stale(db, fence string, t Token) (mark Token, stale bool) {
	m, ok := k.Mark(db, fence)
	if !ok || t.Compare(m.Token) >= 0 {
		return Token{}, false
	}
	return m.Token, true
}

// Mark returns the highest mark seen for the fence: a hint for the fast guard, which checks it.
func (k *Known) Mark(db, fence string) (Mark, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	m, ok := k.marks[knownKey{db, fence}]
	return m, ok
}
