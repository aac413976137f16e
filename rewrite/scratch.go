package rewrite

// Scratch is memory that Analyze uses again from call to call. One per session; not safe for concurrent use. The zero
// value is ready.
type Scratch struct {
	tokens []token
	shape  []byte
	starts []int32
	rows   rowFolder
	lists  listFolder

	patches []Patch
}

// keepTokens bounds what a Scratch holds between calls: texts with more tokens than that (some 40 KB) give their memory back.
const keepTokens = 8192

func (sc *Scratch) trim() {
	if cap(sc.tokens) > keepTokens {
		sc.tokens = nil
	}
	if cap(sc.rows.out) > keepTokens {
		sc.rows.out = nil
	}
	if cap(sc.patches) > keepTokens { // the analysis that holds them is read before the next call
		sc.patches = nil
	}
	if cap(sc.shape) > 8*keepTokens {
		sc.shape = nil
	}
}
