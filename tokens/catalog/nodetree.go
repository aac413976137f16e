package catalog

import (
	"regexp"
	"strconv"
	"strings"
)

// node is one {TYPE :field value ...} of a pg_node_tree (outfuncs.c). Fields keep what is of interest: nodes and lists of
// them in nodes, the first atom in atoms.
type node struct {
	kind  string
	atoms map[string]string
	nodes map[string][]*node
}

// parseTree reads a pg_node_tree: a node, or a list of them. What does not look like one gives fewer nodes, not an error:
// the result is a hint.
func parseTree(text string) []*node {
	p := treeParser{text: text}
	var list []*node
	for {
		switch tok := p.next(); {
		case tok == "":
			return list
		case tok == "{":
			list = append(list, p.node())
		}
	}
}

type treeParser struct {
	text string
	at   int
}

// next is pg_strtok (read.c): blanks separate, brackets stand alone, a backslash escapes. Strings have no blanks that are
// not escaped, so their quotes need no care.
func (p *treeParser) next() string {
	for p.at < len(p.text) && strings.IndexByte(" \n\t", p.text[p.at]) >= 0 {
		p.at++
	}
	start := p.at
	if start == len(p.text) {
		return ""
	}
	if strings.IndexByte("(){}", p.text[start]) >= 0 {
		p.at++
		return p.text[start:p.at]
	}
	for p.at < len(p.text) && strings.IndexByte(" \n\t(){}", p.text[p.at]) < 0 {
		if p.text[p.at] == '\\' && p.at+1 < len(p.text) {
			p.at++
		}
		p.at++
	}
	return p.text[start:p.at]
}

// node reads one behind its opening brace.
func (p *treeParser) node() *node {
	n := &node{kind: p.next(), atoms: map[string]string{}, nodes: map[string][]*node{}}
	field := ""
	for {
		switch tok := p.next(); {
		case tok == "" || tok == "}":
			return n
		case tok == "{":
			n.nodes[field] = append(n.nodes[field], p.node())
		case tok == "(" || tok == ")": // the members of a list are the field's
		case tok[0] == ':':
			field = tok[1:]
		default:
			if _, has := n.atoms[field]; !has {
				n.atoms[field] = tok
			}
		}
	}
}

func (n *node) number(field string) int {
	i, _ := strconv.Atoi(n.atoms[field])
	return i
}

// relation is the OID of the n-th entry of a query's range table, 0 if that is no relation.
func (n *node) relation(index int) uint32 {
	if table := n.nodes["rtable"]; index >= 1 && index <= len(table) {
		return uint32(table[index-1].number("relid"))
	}
	return 0
}

// queries calls f for each query of the tree, those inside of others too.
func (n *node) queries(f func(*node)) {
	if n.kind == "QUERY" {
		f(n)
	}
	for _, list := range n.nodes {
		for _, child := range list {
			child.queries(f)
		}
	}
}

// write is what a query does to a relation.
type write struct {
	relation uint32
	events   Events
}

// writes are those of all queries of the tree.
func writes(tree []*node) (list []write) {
	for _, n := range tree {
		n.queries(func(q *node) {
			// CmdType (nodes.h); 5 is MERGE from PostgreSQL 15 on, and a utility command without a target before.
			events := map[int]Events{2: Update, 3: Insert, 4: Delete, 5: Insert | Update | Delete}[q.number("commandType")]
			if q.atoms["onConflict"] == "" && len(q.nodes["onConflict"]) > 0 {
				events |= Update
			}
			if r := q.relation(q.number("resultRelation")); r != 0 && events != 0 {
				list = append(list, write{r, events})
			}
		})
	}
	return list
}

// reads are the relations of all range tables.
func reads(tree []*node) (list []uint32) {
	for _, n := range tree {
		n.queries(func(q *node) {
			for i := range q.nodes["rtable"] {
				if r := q.relation(i + 1); r != 0 {
					list = append(list, r)
				}
			}
		})
	}
	return list
}

// base is the relation below a view that PostgreSQL writes through: the only member of its FROM (rewriteHandler.c
// view_query_is_auto_updatable). pg_relation_is_updatable would tell, but it waits for whoever has the view locked.
func base(tree []*node) uint32 {
	if len(tree) == 0 || len(tree[0].nodes["jointree"]) == 0 {
		return 0
	}
	q := tree[0]
	for _, field := range []string{"distinctClause", "groupClause", "groupingSets", "havingQual", "setOperations", "cteList", "limitOffset", "limitCount"} {
		if len(q.nodes[field]) > 0 {
			return 0
		}
	}
	for _, field := range []string{"hasAggs", "hasWindowFuncs", "hasTargetSRFs"} {
		if q.atoms[field] == "true" {
			return 0
		}
	}
	from := q.nodes["jointree"][0].nodes["fromlist"]
	if len(from) != 1 || from[0].kind != "RANGETBLREF" {
		return 0
	}
	return q.relation(from[0].number("rtindex"))
}

var functionField = regexp.MustCompile(`:(?:funcid|opfuncid|aggfnoid|winfnoid) (\d+)`)

// calls are the functions that a tree calls, operators' too.
func calls(text string) (list []uint32) {
	for _, m := range functionField.FindAllStringSubmatch(text, -1) {
		if oid, err := strconv.ParseUint(m[1], 10, 32); err == nil && oid >= firstUserOID {
			list = append(list, uint32(oid))
		}
	}
	return list
}

// firstUserOID: below it are the objects of initdb (transam.h FirstNormalObjectId).
const firstUserOID = 16384
