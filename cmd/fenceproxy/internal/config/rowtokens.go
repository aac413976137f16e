package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fenceproxy/fenceproxy/rewrite"
)

// OnStale is what becomes of a write to a row that a newer token has written.
type OnStale string

const (
	OnStaleReject  OnStale = "reject"
	OnStaleRewrite OnStale = "rewrite"
)

var onStales = []string{string(OnStaleReject), string(OnStaleRewrite)}

// rowPart is a text of a fence that row tokens need.
type rowPart struct {
	key   string
	of    func(*Fence) *string
	check func(string) error
}

var fenceParts = []rowPart{
	{"row_token", func(f *Fence) *string { return &f.RowToken }, checkColumn},
	{"on_stale", func(f *Fence) *string { return (*string)(&f.OnStale) }, func(v string) error {
		var word OnStale
		return setWord(&word, "way", onStales, v)
	}},
	{"scope", func(f *Fence) *string { return &f.Scope }, func(v string) error {
		if v == "" {
			return errors.New("it is empty")
		}
		return nil
	}},
}

func fencePart(key string) *rowPart {
	if i := slices.IndexFunc(fenceParts, func(p rowPart) bool { return p.key == key }); i >= 0 {
		return &fenceParts[i]
	}
	return nil
}

func checkColumn(v string) error {
	if parts, rest := splitName(v); rest != "" || len(parts) != 1 || parts[0] == "*" {
		return fmt.Errorf("%s is not a column: want its name, quoted as in SQL", quote(v))
	}
	return nil
}

// checkRowTokens asks package rewrite what it needs of a fence.
func (f *file) checkRowTokens() {
	for i, fence := range f.config.Fences {
		if slices.Contains(f.bad, i) {
			continue // what is not right by itself has been told
		}
		if i >= len(f.fences) || fence.RowToken == "" && fence.OnStale != OnStaleRewrite && fence.Scope == "" || len(fence.Tables) == 0 {
			continue
		}
		rows := rewrite.Fence{Name: fence.Name, Tables: fence.Tables, RowToken: fence.RowToken, Scope: fence.Scope}
		if fence.OnStale == OnStaleRewrite {
			rows.OnStale = rewrite.StaleRewrite
		}
		if _, err := rewrite.New(rewrite.Config{Fences: []rewrite.Fence{rows}}); err != nil {
			f.errs.add(f.fences[i], "%s", err)
		}
	}
}

// Column is the row token's column as the catalog stores its name; "" without.
func (f Fence) Column() string {
	if f.RowToken == "" {
		return ""
	}
	return fold(f.RowToken)
}

// ScopeColumn is the column that the scope names, as the catalog stores it; "" without.
func (f Fence) ScopeColumn() string {
	_, rest, _ := strings.Cut(f.Scope, "{")
	name, _, has := strings.Cut(rest, "}")
	if !has {
		return ""
	}
	return fold(strings.TrimSpace(name))
}
