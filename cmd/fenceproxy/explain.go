package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/dbcheck"
	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens/catalog"
)

// maxExplain bounds what is read from standard input.
const maxExplain = 64 << 20

// explained is the plan of a text, for people and for JSON.
type explained struct {
	Failure    string               `json:"failure,omitempty"`
	Statements []explainedStatement `json:"statements"`
}

type explainedStatement struct {
	Line     int      `json:"line"` // of the statement's first token, from 1
	Column   int      `json:"column"`
	Verb     string   `json:"verb"`
	Kind     string   `json:"kind"`
	Effect   string   `json:"effect"`
	Fences   []string `json:"fences"`
	Action   string   `json:"action"`
	Refusal  string   `json:"refusal,omitempty"`  // SQLSTATE
	Hint     string   `json:"hint,omitempty"`     // of the refusal: how to say it instead
	Injected string   `json:"injected,omitempty"` // SQL of the simple protocol; the extended protocol runs the same guard
	Sent     string   `json:"sent,omitempty"`     // the statement with its row tokens, when it is not sent as it is
}

func newExplain() *cobra.Command {
	var file, dsn string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain [flags] ['SQL']",
		Short: "Show what the proxy would do with a statement",
		Long: `explain reads SQL from its argument, or from standard input, and shows for each statement
what the proxy takes it for, which fences it writes, what would be put in front of it, and
how it is sent when its fence has row tokens.

It needs no database. With --dsn it reads the catalog of one, and changes nothing there: then
it knows partitions and inheritance children, views and functions that write fenced tables,
and the columns of tables with row tokens, as serve does.

The column fences lists what the statement writes as far as the text tells. An effect of
"opaque" means that it calls code which may write anything. A text without a statement is an
error (exit code 2).`,
		Example: `  fenceproxy explain --fence billing=invoices,payments "UPDATE invoices SET paid = true"
  fenceproxy explain --config fenceproxy.yaml --json < migration.sql
  fenceproxy explain --config fenceproxy.yaml --dsn postgres://fence@db/app "SELECT pay(7)"`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError(cmd, errors.New("more than one text: put the SQL in quotes"))
			}
			return nil
		},
	}
	flags := config.AddFlags(cmd.Flags(), "fences", "mode", "bare_token", "opaque", "opaque_call", "tokenless")
	cmd.Flags().StringVar(&file, "config", os.Getenv("FENCEPROXY_CONFIG"), "configuration `FILE`")
	cmd.Flags().StringVar(&dsn, "dsn", "", "`DSN` of a database whose catalog is read first")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, warnings, err := config.Load(config.Source{File: file, Environment: os.Environ(), Flags: flags, Partial: true})
		if err != nil {
			return wrongConfig(err)
		}
		tellWarnings(cmd, warnings)
		sql, err := explainText(cmd, args)
		if err != nil {
			return err
		}
		rules := c.Rewrite()
		if cmd.Flags().Changed("dsn") {
			if err := readCatalog(cmd, c, dsn, &rules); err != nil {
				return err
			}
		}
		result, err := explain(c, rules, sql)
		if err != nil {
			return wrongConfig(err)
		}
		if len(result.Statements) == 0 {
			return usageError(cmd, errors.New("no SQL: there is no statement in the text"))
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), result)
		}
		return result.write(cmd.OutOrStdout())
	}
	return cmd
}

func explainText(cmd *cobra.Command, args []string) ([]byte, error) {
	if len(args) == 1 && args[0] != "-" {
		return []byte(args[0]), nil
	}
	in := cmd.InOrStdin()
	if len(args) == 0 && isDevice(in) { // somebody at a terminal who forgot the text, not a pipe
		return nil, usageError(cmd, errors.New("no SQL: give it as an argument, or on standard input"))
	}
	sql, err := io.ReadAll(io.LimitReader(in, maxExplain+1))
	if err != nil {
		return nil, err
	}
	if len(sql) > maxExplain {
		return nil, fmt.Errorf("standard input holds more than %d bytes", maxExplain)
	}
	return sql, nil
}

func isDevice(in io.Reader) bool {
	f, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// readCatalog adds to the rules what serve would know of the database.
func readCatalog(cmd *cobra.Command, c *config.Config, dsn string, rules *rewrite.Config) error {
	conn, err := connect(cmd.Context(), dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	s, err := catalog.Read(cmd.Context(), conn, dbcheck.Fences(c.Fences))
	if err != nil {
		return fmt.Errorf("reading the catalog: %w", err)
	}
	if rows, _ := addFound(rules, s); rows {
		rules.Catalog = &tableColumns{func() *catalog.Snapshot { return s }, func() bool { return true }}
	}
	return nil
}

func explain(c *config.Config, rules rewrite.Config, sql []byte) (*explained, error) {
	analyzer, err := rewrite.New(rules)
	if err != nil {
		return nil, err
	}
	var scratch rewrite.Scratch
	a := analyzer.Analyze(&scratch, sql, rewrite.Settings{})
	result := &explained{Failure: a.Failure, Statements: []explainedStatement{}}
	for i := range a.Statements {
		st := &a.Statements[i]
		if st.Kind == rewrite.KindEmpty {
			continue
		}
		e := explainedStatement{Verb: st.Verb, Kind: st.Kind.String(), Effect: st.Effect.String(), Fences: []string{}}
		if i < len(a.Starts) {
			e.Line, e.Column = place(sql, int(a.Starts[i]))
		}
		for f, name := range c.FenceNames() {
			if st.Fences.Has(f) || st.RowFences.Has(f) || st.NewRows.Has(f) {
				e.Fences = append(e.Fences, name)
			}
		}
		decide(c, st, &e)
		if c.Mode == config.ModeEnforce && st.Refuse == nil {
			e.Sent = sentText(a, sql, i)
		}
		result.Statements = append(result.Statements, e)
	}
	return result, nil
}

// sentText is the i-th statement as it is sent; "" when that is as it came.
func sentText(a rewrite.Analysis, sql []byte, i int) string {
	if !a.Spliced() || i >= len(a.Starts) {
		return ""
	}
	from, to := int(a.Starts[i]), len(sql)
	if i+1 < len(a.Starts) {
		to = int(a.Starts[i+1])
	}
	sent := a.AppendSpliced(nil, sql, from, to)
	if bytes.Equal(sent, sql[from:to]) {
		return ""
	}
	return strings.TrimRight(string(sent), " \t\r\n;")
}

// place is a byte offset as line and column, counted in characters from 1.
func place(sql []byte, offset int) (line, column int) {
	before := sql[:min(offset, len(sql))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte{'\n'}) + 1, utf8.RuneCount(before[start:]) + 1
}

func (e *explained) write(w io.Writer) error {
	if e.Failure != "" {
		fmt.Fprintf(w, "The text cannot be read (%s). PostgreSQL is asked to parse it first, which\nexecutes nothing: its error goes to the client. What it can parse is taken for a write to every fence.\n\n", e.Failure)
	}
	t := table{heads: []string{"at", "statement", "kind", "effect", "fences", "action"}}
	for _, s := range e.Statements {
		t.add(fmt.Sprintf("%d:%d", s.Line, s.Column), s.Verb, s.Kind, s.Effect, strings.Join(s.Fences, ", "), s.Action)
	}
	if err := t.write(w); err != nil {
		return err
	}
	for _, s := range e.Statements {
		if s.Hint != "" {
			if _, err := fmt.Fprintf(w, "\nhint for %d:%d:\n  %s\n", s.Line, s.Column, s.Hint); err != nil {
				return err
			}
		}
		if s.Injected != "" {
			if _, err := fmt.Fprintf(w, "\nin front of %d:%d:\n  %s;\n", s.Line, s.Column, s.Injected); err != nil {
				return err
			}
		}
		if s.Sent != "" {
			if _, err := fmt.Fprintf(w, "\n%d:%d is sent as:\n  %s;\n", s.Line, s.Column, s.Sent); err != nil {
				return err
			}
		}
	}
	return nil
}
