package relay

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fenceproxy/fenceproxy/rewrite"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
)

// encoded is messages as bytes.
func encoded(messages ...interface{ Encode([]byte) ([]byte, error) }) (b []byte) {
	for _, m := range messages {
		var err error
		if b, err = m.Encode(b); err != nil {
			panic(err)
		}
	}
	return b
}

// BenchmarkForward is a round trip of a client and a server that say the same again and again, through sockets and a
// session in mode enforce. Allocations are those of the whole process: none of them may be the proxy's, per message.
func BenchmarkForward(b *testing.B) {
	row := &pgproto3.DataRow{Values: [][]byte{[]byte("12345")}}
	columns := &pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("abalance"), DataTypeOID: 23, DataTypeSize: 4}}}
	done := &pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")}
	ready := &pgproto3.ReadyForQuery{TxStatus: 'I'}
	for _, c := range []struct {
		name              string
		messages          int
		setup             []byte
		request, response []byte
	}{
		{name: "simple", messages: 5,
			request:  encoded(&pgproto3.Query{String: "SELECT abalance FROM pgbench_accounts WHERE aid = 12345;"}),
			response: encoded(columns, row, done, ready)},
		{name: "prepared", messages: 9,
			setup: encoded(&pgproto3.Parse{Name: "P_0", Query: "SELECT abalance FROM pgbench_accounts WHERE aid = $1;"}, &pgproto3.Sync{}),
			request: encoded(&pgproto3.Bind{PreparedStatement: "P_0", Parameters: [][]byte{[]byte("12345")}},
				&pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{}, &pgproto3.Sync{}),
			response: encoded(&pgproto3.BindComplete{}, columns, row, done, ready)},
		{name: "rows", messages: 1003,
			request:  encoded(&pgproto3.Query{String: "SELECT abalance FROM pgbench_accounts"}),
			response: append(append(encoded(columns), bytes.Repeat(encoded(row), 1000)...), encoded(done, ready)...)},
	} {
		b.Run(c.name, func(b *testing.B) {
			conn := benchSession(b, c.setup, c.response)
			got := make([]byte, len(c.response))
			trip := func() {
				if _, err := conn.Write(c.request); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(conn, got); err != nil {
					b.Fatal(err)
				}
			}
			for range 100 {
				trip()
			}
			b.ReportAllocs()
			for b.Loop() {
				trip()
			}
			b.ReportMetric(float64(c.messages), "messages/op")
		})
	}
}

// benchSession is a client that is logged in. Its server answers the session question, setup, and then every chunk with
// response.
func benchSession(b *testing.B, setup, response []byte) net.Conn {
	analyzer, err := rewrite.New(rewrite.Config{Fences: []rewrite.Fence{{Name: "billing", Tables: []string{"acct"}}}})
	if err != nil {
		b.Fatal(err)
	}
	cfg := &Config{Analyzer: analyzer, Fences: []string{"billing"}, Bare: "billing", Known: new(tokens.Known), Shadow: new(ShadowMarks)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		buf := make([]byte, bufferSize)
		wire.ReadStartup(c)
		status := encoded(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"},
			&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
		c.Write(append(append(bytes.Clone(authOK), status...), readyFor...))
		c.Read(buf)
		c.Write(encoded(&pgproto3.RowDescription{}, &pgproto3.DataRow{Values: [][]byte{nil, []byte("d"), []byte("7"), []byte("f"), []byte("u")}},
			&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")}, &pgproto3.ReadyForQuery{TxStatus: 'I'}))
		if setup != nil {
			c.Read(buf)
			c.Write(encoded(&pgproto3.ParseComplete{}, &pgproto3.ReadyForQuery{TxStatus: 'I'}))
		}
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
			if _, err := c.Write(response); err != nil {
				return
			}
		}
	}()
	s, err := NewServer(ServerConfig{Current: func() *Config { return cfg }, Upstream: Upstream{Network: "tcp", Address: l.Addr().String()}})
	if err != nil {
		b.Fatal(err)
	}
	addr, err := s.Listen("127.0.0.1:0", false)
	if err != nil {
		b.Fatal(err)
	}
	go s.Serve()
	b.Cleanup(s.Close)
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	conn.Write(startupPacket("user", "u"))
	benchReady(b, conn)
	if setup != nil {
		conn.Write(setup)
		benchReady(b, conn)
	}
	return conn
}

func benchReady(b *testing.B, c net.Conn) {
	buf := make([]byte, 4096)
	for n := 0; !endsReady(buf[:n]); {
		k, err := c.Read(buf[n:])
		if err != nil {
			b.Fatal(err)
		}
		n += k
	}
}
