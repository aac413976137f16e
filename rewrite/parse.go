package rewrite

import (
	"runtime"
	"time"

	pg "github.com/pganalyze/pg_query_go/v6"
	"github.com/pganalyze/pg_query_go/v6/parser"
	"google.golang.org/protobuf/proto"
)

// Why a text is EffectUnknown, beside the reasons of the lexer. Constants: nothing of the SQL goes to a log.
const (
	failEncoding  = "bytes above 0x7f in a client_encoding that is not safe to read"
	failBackslash = "backslash while standard_conforming_strings is off"
	failUTF8      = "not UTF-8"
	failNUL       = "NUL byte"
	failLong      = "too long to parse"
	failDeep      = "nests too deep to parse"
	failSyntax    = "not in the grammar of PostgreSQL 17"
	failTree      = "a parse tree of unknown form"
)

// parsers bounds the parses that run at the same time: each may take a thread, some milliseconds and, at 256 KiB of
// text, some 25 MB of memory outside Go's view.
var parsers = make(chan struct{}, runtime.GOMAXPROCS(0))

// parse runs PostgreSQL's grammar over text that depthBound has passed.
func (a *Analyzer) parse(text []byte) (*pg.ParseResult, error) {
	parsers <- struct{}{}
	defer func() { <-parsers }()
	started := time.Now()
	defer func() { a.stats.parsed(time.Since(started)) }()
	tree, err := parser.ParseToProtobuf(string(text))
	if err != nil {
		return nil, err
	}
	var result pg.ParseResult
	if err := proto.Unmarshal(tree, &result); err != nil {
		return nil, err
	}
	return &result, nil
}
