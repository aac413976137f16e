package rewrite

// Fence maps tables to a fence. Tables are written as in SQL: name, schema.name, schema.* ; quoted parts keep their case,
// unquoted ones fold to lower case and are truncated to 63 bytes as PostgreSQL does.
type Fence struct {
	Name   string
	Tables []string

	// RowToken is the column that holds the token of the last write to each row, written as in SQL; "" without row
	// tokens. Every table of the fence must have it.
	RowToken string
	OnStale  OnStale
	// Scope ties each row to a fence of its own by a column in braces: with jobs/{id} for the fence jobs/*, a session writes
	// rows with id 42 only if it has a token named jobs/42. "" without.
	Scope string
	// BareToken: a token without a name is for this fence.
	BareToken bool
	// Found is what the catalog adds to Tables.
	Found Found
}

// Config is what Analyze decides by. Immutable; a reload makes a new Analyzer.
type Config struct {
	Fences []Fence
	// HarmlessFunctions are functions and procedures of the application known not to write, added to the built-in list.
	// As called: name covers calls by the bare name, schema.name qualified ones.
	HarmlessFunctions []string
	// Catalog may be nil: then INSERT without a list of columns is refused where rows are to be stamped.
	Catalog       Catalog
	CacheBytes    int64 // bound of each of the two caches; 0 means 16 MiB
	MaxParseBytes int   // longer texts are not parsed but EffectUnknown; equal rows, long lists and long literals do not count. 0 means 256 KiB
}

// Settings are the session settings that change how a text is read. Both are reported by the server (ParameterStatus).
type Settings struct {
	// UnsafeEncoding: client_encoding is one whose bytes >= 0x80 may be followed by ASCII bytes that belong to the same
	// character (SJIS, BIG5, GBK, GB18030, JOHAB, UHC, SHIFT_JIS_2004), or is unknown. Texts with a byte >= 0x80 are EffectUnknown then.
	UnsafeEncoding bool
	// BackslashQuotes: standard_conforming_strings is off. Texts with a backslash are EffectUnknown then.
	BackslashQuotes bool
}
