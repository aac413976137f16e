package protocol

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fenceproxy/fenceproxy/test/conversation"
	"github.com/fenceproxy/fenceproxy/wire"
)

// session is a raw one, whose texts are bytes of any encoding.
type session struct {
	t      *testing.T
	client *conversation.Client
}

func open(t *testing.T, addr, db, token string, params ...string) *session {
	t.Helper()
	params = append([]string{"user", user, "database", db}, params...)
	if token != "" {
		params = append(params, "fence.token", token)
	}
	client, err := conversation.Dial(addr, params...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	s := &session{t, client}
	if sqlstate, _ := s.reply(); sqlstate != "" {
		t.Fatalf("startup: %s", sqlstate)
	}
	return s
}

// reply reads to ReadyForQuery: the SQLSTATE of an error, and the last row's first column.
func (s *session) reply() (sqlstate string, value []byte) {
	s.t.Helper()
	raw, err := s.client.UntilReady()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, m := range raw {
		switch m[0] {
		case wire.BackendErrorResponse:
			sqlstate = conversation.Fields(m[5:])['C']
		case wire.BackendDataRow:
			row, _ := wire.DecodeDataRow(m[5:])
			value, _, _ = row.Column(0)
		}
	}
	return sqlstate, value
}

func (s *session) run(sql string, extended bool) (sqlstate string, value []byte) {
	s.t.Helper()
	b := wire.AppendQuery(nil, sql)
	if extended {
		b = wire.AppendSync(wire.AppendExecute(wire.AppendBind(wire.AppendParse(nil, "", sql), "", ""), ""))
	}
	if err := s.client.Write(b); err != nil {
		s.t.Fatal(err)
	}
	return s.reply()
}

// backslashed finds a character of an encoding whose last byte is a backslash.
func backslashed(t *testing.T, conn *pgx.Conn, encoding string) (in []byte, character string) {
	t.Helper()
	for lead := 0x81; lead < 0xff; lead++ {
		err := conn.QueryRow(context.Background(), "SELECT convert_from($1::bytea, $2)", []byte{byte(lead), '\\'}, encoding).Scan(&character)
		if err == nil && len([]rune(character)) == 1 {
			return []byte{byte(lead), '\\'}, character
		}
	}
	t.Fatalf("%s has no character that ends in a backslash", encoding)
	return nil, ""
}

// shardingsphere#5886: encodings in which a backslash may be the second byte of a character. PostgreSQL converts the text
// first and reads it then, so that who reads its bytes sees strings end elsewhere. I5: never misread; refused or guarded
// in doubt.
func TestCharactersThatEndInABackslash(t *testing.T) {
	c, db, p := start(t)
	direct := c.Connect(t, db, "postgres")
	for _, encoding := range []string{"SJIS", "SHIFT_JIS_2004", "BIG5", "GBK", "GB18030"} {
		in, character := backslashed(t, direct, encoding)
		for _, way := range []string{"startup", "SET"} {
			t.Run(encoding+" by "+way, func(t *testing.T) {
				connect := func(addr, token string) *session {
					if way == "startup" {
						return open(t, addr, db, token, "client_encoding", encoding)
					}
					s := open(t, addr, db, token)
					if sqlstate, _ := s.run("SET client_encoding = '"+encoding+"'", false); sqlstate != "" {
						t.Fatal(sqlstate)
					}
					return s
				}
				check(t, c.Addr(), p.Addr(), direct, connect, func(token string) { p.Connect(t, db, user, token) }, texts{
					hidden: fmt.Sprintf("SELECT E'%s'; UPDATE acct SET bal = 666; --'", in),
					update: fmt.Sprintf("UPDATE acct SET bal = 666, name = E'%s' WHERE id = 1", in),
					read:   fmt.Sprintf("SELECT '%s'", in),
					value:  in, stored: character,
				})
			})
		}
	}
}

// libpg_query#50: standard_conforming_strings = off makes a backslash an escape in every string.
func TestBackslashesThatEscape(t *testing.T) {
	c, db, p := start(t)
	direct := c.Connect(t, db, "postgres")
	for _, way := range []string{"options", "SET", "DO", "set_config"} {
		t.Run(way, func(t *testing.T) {
			connect := func(addr, token string) *session {
				if way == "options" {
					return open(t, addr, db, token, "options", "-c standard_conforming_strings=off -c escape_string_warning=off")
				}
				s := open(t, addr, db, token, "escape_string_warning", "off")
				set := map[string]string{
					"SET":        "SET standard_conforming_strings = off",
					"DO":         "DO $$ BEGIN SET standard_conforming_strings = off; END $$",
					"set_config": "SELECT set_config('standard_conforming_strings', 'off', false)",
				}[way]
				if sqlstate, _ := s.run(set, false); sqlstate != "" {
					t.Fatal(sqlstate)
				}
				return s
			}
			check(t, c.Addr(), p.Addr(), direct, connect, func(token string) { p.Connect(t, db, user, token) }, texts{
				hidden: `SELECT 'a\'' ; UPDATE acct SET bal = 666; -- '`,
				update: `UPDATE acct SET bal = 666, name = 'a\'b' WHERE id = 1`,
				read:   `SELECT 'a\'b'`,
				value:  []byte("a'b"), stored: "a'b",
			})
		})
	}
}

type texts struct {
	hidden string // a write that a careless reader does not see, by the simple protocol
	update string // a write that sets name
	read   string
	value  []byte // what read returns
	stored string // and what update stores
}

// check runs the texts directly, where they must do what they are to, and through the proxy in the three states of a token.
func check(t *testing.T, server, proxy string, direct *pgx.Conn, connect func(addr, token string) *session, present func(token string), x texts) {
	t.Helper()
	ctx := context.Background()
	written := func() bool {
		n := number(t, direct, "SELECT count(*) FROM acct WHERE bal = 666")
		if _, err := direct.Exec(ctx, "UPDATE acct SET bal = 0, name = NULL"); err != nil {
			t.Fatal(err)
		}
		return n > 0
	}
	written()
	if sqlstate, _ := connect(server, "").run(x.hidden, false); sqlstate != "" || !written() {
		t.Fatalf("directly: SQLSTATE %q: this text proves nothing", sqlstate)
	}
	token := nextToken()
	fresh, none := connect(proxy, token), connect(proxy, "")
	for _, extended := range []bool{false, true} {
		if sqlstate, value := fresh.run(x.read, extended); sqlstate != "" || !bytes.Equal(value, x.value) {
			t.Errorf("extended %v: a read: SQLSTATE %q, %q", extended, sqlstate, value)
		}
		if sqlstate, _ := fresh.run(x.update, extended); sqlstate != "" {
			t.Errorf("extended %v: an update: SQLSTATE %q", extended, sqlstate)
		}
		var name string
		if err := direct.QueryRow(ctx, "SELECT name FROM acct WHERE id = 1").Scan(&name); err != nil || name != x.stored {
			t.Errorf("extended %v: stored %q, want %q (%v)", extended, name, x.stored, err)
		}
		written()
	}
	refused := func(who string, s *session, codes ...string) {
		t.Helper()
		for _, extended := range []bool{false, true} {
			if sqlstate, _ := s.run(x.update, extended); !slices.Contains(codes, sqlstate) || written() {
				t.Errorf("%s, extended %v: an update: SQLSTATE %q", who, extended, sqlstate)
			}
		}
		if sqlstate, _ := s.run(x.hidden, false); !slices.Contains(append(codes, "ZF004"), sqlstate) || written() {
			t.Errorf("%s: a hidden update: SQLSTATE %q", who, sqlstate)
		}
	}
	refused("without a token", none, "ZF002")
	present(nextToken())
	refused("stale", fresh, "ZF001")
}
