package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// file decodes a syntax tree. It does not use the library's struct decoder, which stops at the first error.
type file struct {
	config  *Config
	errs    *Errors
	origins map[string]Origin
	fences  []Origin // of the names of config.Fences
	bad     []int    // indices of fences about which a problem has been told
}

func (f *file) decode(text []byte) {
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		var syntax yaml.Error
		if errors.As(err, &syntax) && syntax.GetToken() != nil {
			f.errs.add(at(syntax.GetToken()), "%s", Mask(syntax.GetMessage()))
			return
		}
		f.errs.add(Origin{}, "not YAML")
		return
	}
	documents := 0
	for _, doc := range tree.Docs {
		if doc.Body == nil {
			continue
		}
		if documents++; documents > 1 {
			f.errs.add(first(doc.Body), "a configuration is one YAML document")
			return
		}
		f.mapping("", doc.Body)
	}
}

// mapping decodes the keys below prefix.
func (f *file) mapping(prefix string, n ast.Node) {
	pairs, ok := pairsOf(n)
	if !ok {
		f.wrongType(n, "settings, one `key: value` a line")
		return
	}
	for _, pair := range pairs {
		name, path := keyText(pair), join(prefix, keyText(pair))
		switch s := lookup(path); {
		case s != nil:
			f.origins[path] = at(pair.Value.GetToken())
			f.value(s, pair.Value)
		case slices.ContainsFunc(settings, func(s setting) bool { return strings.HasPrefix(s.key, path+".") }):
			f.mapping(path, pair.Value)
		default:
			f.unknownKey(pair, name, namesBelow(prefix))
		}
	}
}

func (f *file) unknownKey(pair *ast.MappingValueNode, name string, known []string) {
	message := fmt.Sprintf("unknown key %s", quote(name))
	if near := nearest(name, known); near != "" {
		message += fmt.Sprintf(": did you mean %s?", near)
	} else {
		message += ": want one of " + strings.Join(known, ", ")
	}
	f.errs.add(at(pair.Key.GetToken()), "%s", message)
}

func (f *file) value(s *setting, n ast.Node) {
	switch s.kind {
	case kindTexts, kindListeners, kindFences, kindFunctions:
		s.reset(f.config)
		f.list(s, n)
	default:
		f.scalar(s, n)
	}
}

func (f *file) list(s *setting, n ast.Node) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		f.wrongType(n, "a list, one `- element` a line")
		return
	}
	for _, element := range seq.Values {
		if _, isMapping := pairsOf(element); isMapping && s.kind == kindListeners {
			f.listener(element)
		} else if s.kind == kindFences {
			f.fence(element)
		} else {
			f.scalar(s, element)
		}
	}
}

// scalar checks the YAML type, then the value.
func (f *file) scalar(s *setting, n ast.Node) {
	text, ok := scalarText(n)
	want := ""
	switch _, isText := textOf(n); s.kind {
	case kindInteger:
		if _, is := n.(*ast.IntegerNode); !is {
			want = "a whole number"
		}
	case kindSize:
		if _, is := n.(*ast.IntegerNode); !is && !isText {
			want = "a size, like 16MiB"
		}
	case kindFunctions:
		if _, is := n.(*ast.IntegerNode); !is && !isText {
			want = "large_objects or an oid"
		}
	case kindBool:
		if _, is := n.(*ast.BoolNode); !is {
			want = "true or false"
		}
	case kindDuration:
		// A bare number has no unit: seconds to one reader, milliseconds to the next.
		if !isText {
			want = "a duration with a unit, like 10s"
		}
	default:
		// off is a word here and a boolean in YAML 1.1; this parser follows 1.2 and gives text.
		if !isText {
			want = "text"
		}
	}
	if !ok || want != "" {
		f.wrongType(n, want)
		return
	}
	if err := s.set(f.config, text); err != nil {
		f.errs.add(at(n.GetToken()), "%s", err)
	}
}

func (f *file) listener(n ast.Node) {
	pairs, _ := pairsOf(n)
	address, pooled, place := "", false, n
	for _, pair := range pairs {
		switch name := keyText(pair); name {
		case "address":
			text, ok := textOf(pair.Value)
			if !ok {
				f.wrongType(pair.Value, "text")
				return
			}
			address, place = text, pair.Value
		case "pooled":
			b, ok := pair.Value.(*ast.BoolNode)
			if !ok {
				f.wrongType(pair.Value, "true or false")
				return
			}
			pooled = b.Value
		default:
			f.unknownKey(pair, name, []string{"address", "pooled"})
			return
		}
	}
	if address == "" {
		f.errs.add(first(n), "a listener needs an address")
		return
	}
	if err := addListener(f.config, address, pooled); err != nil {
		f.errs.add(at(place.GetToken()), "%s", err)
	}
}

func (f *file) fence(n ast.Node) {
	pairs, ok := pairsOf(n)
	if !ok {
		f.wrongType(n, "a fence with name and tables")
		return
	}
	fence, named := Fence{}, false
	place, bad := first(n), false
	fail := func(o Origin, format string, args ...any) { f.errs.add(o, format, args...); bad = true }
	for _, pair := range pairs {
		switch key := keyText(pair); key {
		case "name":
			text, isText := textOf(pair.Value)
			if !isText {
				f.wrongType(pair.Value, "text")
				bad = true
				continue
			}
			named = true
			fence.Name, place = text, at(pair.Value.GetToken())
			if err := checkFenceName(f.config, text); err != nil {
				fail(place, "%s%s", err, f.firstDefined(text))
			}
		case "tables":
			seq, isList := pair.Value.(*ast.SequenceNode)
			if !isList {
				f.wrongType(pair.Value, "a list of tables")
				bad = true
				continue
			}
			for _, element := range seq.Values {
				text, isText := textOf(element)
				if !isText {
					f.wrongType(element, "text")
					bad = true
				} else if err := addTable(&fence, text); err != nil {
					fail(at(element.GetToken()), "%s", err)
				}
			}
		default:
			part := fencePart(key)
			if part == nil {
				f.unknownKey(pair, key, []string{"name", "tables", "row_token", "on_stale", "scope"})
				bad = true
				continue
			}
			text, isText := textOf(pair.Value)
			if !isText {
				f.wrongType(pair.Value, "text")
				bad = true
			} else if err := part.check(text); err != nil {
				fail(at(pair.Value.GetToken()), "%s: %s", key, err)
			}
			*part.of(&fence) = text
		}
	}
	if !named && !bad {
		f.errs.add(place, "a fence needs a name")
		return
	}
	// A fence with a bad part is kept, so that what refers to it is not called unknown as well.
	f.config.Fences = append(f.config.Fences, fence)
	f.fences = append(f.fences, place)
	if len(fence.Tables) == 0 && !bad {
		f.errs.add(place, "fence %s has no tables", fence.Name)
	}
	if bad {
		f.bad = append(f.bad, len(f.fences)-1)
	}
}

func (f *file) firstDefined(name string) string {
	for i, fence := range f.config.Fences {
		if fence.Name == name {
			return fmt.Sprintf(" (first in line %d)", f.fences[i].Line)
		}
	}
	return ""
}

func (f *file) wrongType(n ast.Node, want string) {
	if want == "" {
		want = "a value"
	}
	f.errs.add(first(n), "want %s, found %s", want, typeName(n))
}

func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

// namesBelow are the keys known below prefix, in the order of the table.
func namesBelow(prefix string) []string {
	var names []string
	for _, s := range settings {
		rest := s.key
		if prefix != "" {
			var has bool
			if rest, has = strings.CutPrefix(s.key, prefix+"."); !has {
				continue
			}
		}
		rest, _, _ = strings.Cut(rest, ".")
		if !slices.Contains(names, rest) {
			names = append(names, rest)
		}
	}
	return names
}

func at(t *token.Token) Origin {
	// A quoted scalar's token begins at its quote, others at their first character.
	return Origin{Line: t.Position.Line, Column: t.Position.Column}
}
