package pgfence

import (
	"slices"
	"strings"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// RuntimeParams are startup parameters for a connection that is opened for this tenure and closed with it, e.g. for
// pgconn.Config.RuntimeParams. Not for the configuration of a pool, which outlives the tenure.
func RuntimeParams(leases ...*lockclient.Lease) (map[string]string, error) {
	l, err := list(leases)
	if err != nil {
		return nil, err
	}
	if len(l) == 0 { // readers
		return map[string]string{}, nil
	}
	return map[string]string{"fence.token": l.String()}, nil
}

// Environ is environ (os.Environ(), say) for a child process that works under the lease: everything that uses libpq
// presents the token by PGOPTIONS, to which it is appended. A token for another fence that PGOPTIONS has already, as in a
// child of a child, is kept. FENCE_LOCK and FENCE_TOKEN tell the lock's name and its token to everybody else.
// A reader's lease gives FENCE_LOCK only.
func Environ(environ []string, l *lockclient.Lease) ([]string, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	if l.Mode() == lockclient.Shared {
		environ, _ = without(environ, "FENCE_LOCK", "FENCE_TOKEN")
		return append(environ, "FENCE_LOCK="+l.Fence().Lock), nil
	}
	return environFor(environ, l.Fence()), nil
}

// without is a copy of environ without the variables named, and the last value that one of them had: the last one
// counts, as in exec.Cmd.Env.
func without(environ []string, names ...string) (rest []string, value string) {
	rest = slices.DeleteFunc(slices.Clone(environ), func(pair string) bool {
		name, v, _ := strings.Cut(pair, "=")
		if !slices.Contains(names, name) {
			return false
		}
		value = v
		return true
	})
	return rest, value
}

func environFor(environ []string, f lockclient.Fence) []string {
	out, _ := without(environ, "FENCE_LOCK", "FENCE_TOKEN")
	out, options := without(out, "PGOPTIONS")
	present := merge(options, f.Item())
	if options != "" {
		options += " "
	}
	return append(out, "FENCE_LOCK="+f.Lock, "FENCE_TOKEN="+f.Token.String(), "PGOPTIONS="+options+"-c fence.token="+present.String())
}

// merge is the list that PGOPTIONS presents already, with the item in place of one for the same fence. A later setting
// wins (postgres.c process_postgres_switches), so appending the item alone would take the others away.
func merge(options string, item tokens.Item) tokens.List {
	var have tokens.List
	for _, word := range strings.Fields(strings.ReplaceAll(options, "-c ", "-c")) {
		value, ok := strings.CutPrefix(word, "-cfence.token=")
		if !ok {
			value, ok = strings.CutPrefix(word, "--fence.token=")
		}
		if !ok {
			continue
		}
		have = nil
		if l, err := tokens.Parse(value); err == nil {
			have = l
		}
	}
	have = slices.DeleteFunc(have, func(i tokens.Item) bool { return i.Fence == item.Fence })
	return append(have, item)
}
