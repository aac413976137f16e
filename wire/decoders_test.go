package wire

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// malformed bodies, each of which some proxy or driver took (pgx GHSA-jqcq-xjh3-6g23, CVE-2024-27304, pgdog#1226, spqr#2556).
var malformed = []struct {
	name string
	typ  byte
	back bool
	body string
}{
	{"query empty", 'Q', false, ""},
	{"query without zero", 'Q', false, "select"},
	{"query with a tail", 'Q', false, "select\x00x"},
	{"parse without count", 'P', false, "a\x00b\x00"},
	{"parse with too few types", 'P', false, "a\x00b\x00\x00\x02\x00\x00\x00\x17"},
	{"parse with a tail", 'P', false, "a\x00b\x00\x00\x00x"},
	{"bind negative length", 'B', false, "\x00\x00\x00\x00\x00\x01\xff\xff\xff\xfe\x00\x00"},
	{"bind length over the end", 'B', false, "\x00\x00\x00\x00\x00\x01\x7f\xff\xff\xffab\x00\x00"},
	{"bind more values than there are", 'B', false, "\x00\x00\x00\x00\xff\xff\x00\x00"},
	{"bind formats do not match", 'B', false, "\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x00"},
	{"bind without result formats", 'B', false, "\x00\x00\x00\x00\x00\x00"},
	{"bind with a tail", 'B', false, "\x00\x00\x00\x00\x00\x00\x00\x00x"},
	{"execute without count", 'E', false, "p\x00"},
	{"execute with a tail", 'E', false, "p\x00\x00\x00\x00\x00x"},
	{"describe of nothing", 'D', false, ""},
	{"describe of something else", 'D', false, "Xa\x00"},
	{"close with a tail", 'C', false, "Sa\x00x"},
	{"complete empty", 'C', true, ""},
	{"ready empty", 'Z', true, ""},
	{"ready unknown", 'Z', true, "X"},
	{"ready long", 'Z', true, "II"},
	{"parameter without value", 'S', true, "a\x00"},
	{"row negative length", 'D', true, "\x00\x01\xff\xff\xff\xfe"},
	{"row short", 'D', true, "\x00\x02\x00\x00\x00\x00"},
	{"row tail", 'D', true, "\x00\x01\x00\x00\x00\x00x"},
	{"error without end", 'E', true, "Sx\x00"},
	{"error with a tail", 'E', true, "Sx\x00\x00x"},
}

// decode runs the decoder for the message type over body and everything it hands out.
func decode(typ byte, back bool, b []byte) (ok bool) {
	if back {
		switch typ {
		case BackendCommandComplete:
			_, ok = DecodeCommandComplete(b)
		case BackendReadyForQuery:
			_, ok = DecodeReadyForQuery(b)
		case BackendParameterStatus:
			_, _, ok = DecodeParameterStatus(b)
		case BackendDataRow:
			var r DataRow
			if r, ok = DecodeDataRow(b); ok {
				r.Column(0)
				r.Column(r.Columns() - 1)
			}
		case BackendErrorResponse:
			w := ErrorFields(b).Walk()
			for w.Next() {
			}
			ok = w.Well()
		}
		return ok
	}
	switch typ {
	case FrontendQuery:
		_, ok = DecodeQuery(b)
	case FrontendParse:
		_, ok = DecodeParse(b)
	case FrontendBind:
		var m Bind
		if m, ok = DecodeBind(b); ok {
			m.Param(0)
			m.Param(m.Params() - 1)
			m.Binary(m.Params() - 1)
		}
	case FrontendExecute:
		_, _, ok = DecodeExecute(b)
	case FrontendDescribe:
		_, _, ok = DecodeDescribe(b)
	case FrontendClose:
		_, _, ok = DecodeClose(b)
	}
	return ok
}

func TestMalformed(t *testing.T) {
	for _, c := range malformed {
		if decode(c.typ, c.back, []byte(c.body)) {
			t.Errorf("%s was taken", c.name)
		}
	}
}

// message strips the header that pgproto3 wrote and checks that Frame reads it.
func message(t *testing.T, m interface{ Encode([]byte) ([]byte, error) }) []byte {
	t.Helper()
	b, err := m.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, size, ok := Frame(b); !ok || size != len(b) {
		t.Fatalf("Frame: size %d, %v; want %d", size, ok, len(b))
	}
	return b[HeaderLen:]
}

func TestDecode(t *testing.T) {
	if sql, ok := DecodeQuery(message(t, &pgproto3.Query{String: "select 1"})); !ok || string(sql) != "select 1" {
		t.Errorf("query %q %v", sql, ok)
	}
	p, ok := DecodeParse(message(t, &pgproto3.Parse{Name: "n", Query: "q", ParameterOIDs: []uint32{23, 25}}))
	if !ok || string(p.Name) != "n" || string(p.SQL) != "q" {
		t.Errorf("parse %+v %v", p, ok)
	}
	b, ok := DecodeBind(message(t, &pgproto3.Bind{DestinationPortal: "p", PreparedStatement: "s",
		ParameterFormatCodes: []int16{0, 1, 0}, Parameters: [][]byte{[]byte("a"), nil, {}}, ResultFormatCodes: []int16{1}}))
	if !ok || string(b.Portal) != "p" || string(b.Statement) != "s" || b.Params() != 3 {
		t.Fatalf("bind %+v %v", b, ok)
	}
	for i, want := range []struct {
		value        string
		null, ok, bi bool
	}{{"a", false, true, false}, {"", true, true, true}, {"", false, true, false}, {"", false, false, false}} {
		if v, null, ok := b.Param(i); string(v) != want.value || null != want.null || ok != want.ok || b.Binary(i) != want.bi {
			t.Errorf("parameter %d: %q %v %v", i, v, null, ok)
		}
	}
	b, ok = DecodeBind(message(t, &pgproto3.Bind{ParameterFormatCodes: []int16{1}, Parameters: [][]byte{{1}, {2}}}))
	if !ok || !b.Binary(0) || !b.Binary(1) {
		t.Errorf("one format for all: %+v %v", b, ok)
	}
	if portal, max, ok := DecodeExecute(message(t, &pgproto3.Execute{Portal: "p", MaxRows: 7})); !ok || string(portal) != "p" || max != 7 {
		t.Errorf("execute %q %d %v", portal, max, ok)
	}
	if target, name, ok := DecodeClose(message(t, &pgproto3.Close{ObjectType: 'P', Name: "n"})); !ok || target != TargetPortal || string(name) != "n" {
		t.Errorf("close %q %q %v", target, name, ok)
	}
	r, ok := DecodeDataRow(message(t, &pgproto3.DataRow{Values: [][]byte{nil, []byte("x")}}))
	if v, null, _ := r.Column(1); !ok || r.Columns() != 2 || string(v) != "x" || null {
		t.Errorf("row %+v %v", r, ok)
	}
	if _, null, ok := r.Column(0); !null || !ok {
		t.Error("column 0 is NULL")
	}
	if tag, ok := DecodeCommandComplete(message(t, &pgproto3.CommandComplete{CommandTag: []byte("UPDATE 1")})); !ok || string(tag) != "UPDATE 1" {
		t.Errorf("complete %q %v", tag, ok)
	}
	if name, v, ok := DecodeParameterStatus(message(t, &pgproto3.ParameterStatus{Name: "a", Value: "b"})); !ok || string(name) != "a" || string(v) != "b" {
		t.Errorf("parameter %q %q %v", name, v, ok)
	}
}

func TestFrame(t *testing.T) {
	for _, c := range []struct {
		head string
		size int
		ok   bool
	}{
		{"S\x00\x00\x00\x04", 5, true}, {"S\x00\x00\x00\x03", 0, false}, {"S\x00\x00\x00\x00", 0, false},
		{"S\xff\xff\xff\xff", 0, false}, {"S\x80\x00\x00\x00", 0, false}, {"S\x7f\xff\xff\xff", 0, false},
		{"d\x40\x00\x00\x03", MaxLength + 1, true}, {"d\x40\x00\x00\x04", 0, false},
	} {
		typ, size, ok := Frame([]byte(c.head))
		if typ != c.head[0] || ok != c.ok || (ok && size != c.size) {
			t.Errorf("%q: %c %d %v", c.head, typ, size, ok)
		}
	}
}

func TestEncodersDecode(t *testing.T) {
	type step struct {
		typ  byte
		back bool
	}
	b := AppendQuery(nil, "select 1")
	b = AppendParse(b, "n", "q", 23)
	b = AppendBind(b, "p", "n", []byte("1"), nil)
	b = AppendExecute(b, "p")
	b = AppendClose(b, TargetPortal, "p")
	b = AppendError(b, &Error{Severity: "ERROR", Code: "ZF001", Message: "m"})
	b = AppendReadyForQuery(b, TxIdle)
	for _, s := range []step{{'Q', false}, {'P', false}, {'B', false}, {'E', false}, {'C', false}, {'E', true}, {'Z', true}} {
		typ, size, ok := Frame(b)
		if !ok || typ != s.typ || !decode(typ, s.back, b[HeaderLen:size]) {
			t.Fatalf("%c: %q", s.typ, b[:size])
		}
		b = b[size:]
	}
	if len(b) != 0 || string(AppendSync(nil)) != "S\x00\x00\x00\x04" {
		t.Fatal(b)
	}
}

func FuzzDecoders(f *testing.F) {
	for _, c := range malformed {
		f.Add(c.typ, c.back, []byte(c.body))
	}
	f.Add(byte('B'), false, []byte("p\x00s\x00\x00\x01\x00\x01\x00\x01\x00\x00\x00\x01x\x00\x00"))
	f.Add(byte('P'), false, []byte("p\x00s\x00\x00\x00"))
	f.Add(byte('D'), true, []byte("\x00\x02\x00\x00\x00\x01x\xff\xff\xff\xff"))
	f.Add(byte('E'), true, []byte("SERROR\x00C42601\x00P3\x00\x00"))
	f.Fuzz(func(t *testing.T, typ byte, back bool, b []byte) {
		before := bytes.Clone(b)
		ok := decode(typ, back, b)
		if !bytes.Equal(before, b) {
			t.Fatal("changed its input")
		}
		out, well := AppendEditedError(nil, 'E', b, ErrorEdit{Severity: "FATAL", Position: 3, Message: "m"})
		if well && !decode('E', true, out[HeaderLen:]) {
			t.Fatalf("%q: edited to %q", b, out)
		}
		if back || !ok {
			return
		}
		// what is taken here is taken by pgx as well
		switch typ {
		case 'B':
			if err := new(pgproto3.Bind).Decode(b); err != nil {
				t.Fatalf("%q: %v", b, err)
			}
		case 'P':
			if err := new(pgproto3.Parse).Decode(b); err != nil {
				t.Fatalf("%q: %v", b, err)
			}
		}
	})
}

func FuzzFrames(f *testing.F) {
	f.Add(AppendSync(AppendQuery(nil, "select 1")))
	f.Add([]byte("S\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) >= HeaderLen {
			_, size, ok := Frame(b)
			if !ok {
				return
			}
			if size < HeaderLen || size > MaxLength+1 {
				t.Fatalf("size %d", size)
			}
			if size > len(b) {
				return
			}
			b = b[size:]
		}
	})
}

func TestDecodersDoNotAllocate(t *testing.T) {
	bind := message(t, &pgproto3.Bind{Parameters: [][]byte{[]byte("a"), nil}})
	parse := message(t, &pgproto3.Parse{Name: "n", Query: "q", ParameterOIDs: []uint32{23}})
	row := message(t, &pgproto3.DataRow{Values: [][]byte{nil, []byte("x")}})
	fail := message(t, &pgproto3.ErrorResponse{Severity: "ERROR", Code: "42601", Message: "m", Position: 3})
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() {
		decode('B', false, bind)
		decode('P', false, parse)
		decode('D', true, row)
		decode('E', true, fail)
		ErrorFields(fail).Get(FieldCode)
		AppendEditedError(buf, 'E', fail, ErrorEdit{Severity: "FATAL", Position: 1})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
