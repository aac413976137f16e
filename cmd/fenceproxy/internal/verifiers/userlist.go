package verifiers

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/fenceproxy/fenceproxy/wire"
)

// Userlist are the users of a file in pgbouncer's format: "user" "verifier" on a line, a quote inside of quotes doubled, and
// comments behind a semicolon at the beginning of a line. Users without a SCRAM verifier (a password in clear text, md5) are
// nil: they cannot log in.
type Userlist map[string]*wire.ScramVerifier

// ReadUserlist reads a file. Errors name lines and repeat nothing of them.
func ReadUserlist(path string) (Userlist, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	list := Userlist{}
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == ';' {
			continue
		}
		user, rest, err := quoted(line)
		var secret string
		if err == nil {
			secret, _, err = quoted(strings.TrimLeft(rest, " \t")) // what follows, pgbouncer ignores too
		}
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, i+1, err)
		}
		if _, twice := list[user]; twice {
			return nil, fmt.Errorf("%s: line %d: a user who is listed already", path, i+1)
		}
		list[user] = nil
		if v, err := wire.ParseScramVerifier(secret); err == nil {
			list[user] = v
		}
	}
	return list, nil
}

var errNotQuoted = errors.New(`want "user" "SCRAM-SHA-256$..."`)

func quoted(s string) (value, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", errNotQuoted
	}
	for i := 1; i < len(s); i++ {
		if s[i] != '"' {
			continue
		}
		if i+1 < len(s) && s[i+1] == '"' {
			i++
			continue
		}
		return strings.ReplaceAll(s[1:i], `""`, `"`), s[i+1:], nil
	}
	return "", "", errNotQuoted
}
