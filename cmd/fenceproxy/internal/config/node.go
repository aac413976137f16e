package config

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"
)

// pairsOf are the pairs of a mapping; the library gives a lone pair a node of its own.
func pairsOf(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func keyText(pair *ast.MappingValueNode) string {
	if s, ok := pair.Key.(*ast.StringNode); ok {
		return s.Value
	}
	return pair.Key.GetToken().Value
}

func textOf(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode: // | and >
		return n.Value.Value, true
	}
	return "", false
}

func scalarText(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.IntegerNode:
		return fmt.Sprint(n.Value), true
	case *ast.BoolNode:
		return fmt.Sprint(n.Value), true
	}
	return textOf(n)
}

// first is where a node begins. A mapping's own token is the colon of its first pair.
func first(n ast.Node) Origin {
	if pairs, ok := pairsOf(n); ok && len(pairs) > 0 {
		return at(pairs[0].Key.GetToken())
	}
	return at(n.GetToken())
}

func typeName(n ast.Node) string {
	switch n := n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	case *ast.IntegerNode:
		return "a whole number"
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return n.String()
	case *ast.NullNode:
		return "nothing"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return "an anchor or alias, which are not supported"
	case *ast.TagNode:
		return "a tag, which is not supported"
	}
	return "something else"
}

// nearest is the known word that a typing mistake or two away from name, "" when none is.
func nearest(name string, known []string) string {
	best, least := "", 3
	for _, k := range known {
		if d := distance(name, k); d < least && d < len(k) {
			best, least = k, d
		}
	}
	return best
}

// distance is the Levenshtein distance.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
