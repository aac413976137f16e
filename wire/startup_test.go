package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// packet puts the length word in front.
func packet(rest string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(rest)+4))
	return append(b, rest...)
}

func TestReadStartup(t *testing.T) {
	const v30, v32 = "\x00\x03\x00\x00", "\x00\x03\x00\x02"
	cancel := "\x04\xd2\x16\x2e\xff\xff\xff\xfe" // a negative process id is one
	for _, c := range []struct {
		name   string
		in     []byte
		kind   StartupKind
		params []Param
		code   string // of the refusal
		text   string
	}{
		{name: "plain", in: packet(v30 + "user\x00a\x00\x00"), params: []Param{{"user", "a"}}},
		{name: "no parameter", in: packet(v30 + "\x00")},
		{name: "order and duplicates", in: packet(v32 + "user\x00a\x00options\x00x\x00user\x00b\x00options\x00y\x00\x00"),
			params: []Param{{"user", "a"}, {"options", "x"}, {"user", "b"}, {"options", "y"}}},
		{name: "grease version and option", in: packet("\x00\x03\x27\x0f" + "user\x00a\x00_pq_.test_protocol_negotiation\x00\x00\x00"),
			params: []Param{{"user", "a"}, {"_pq_.test_protocol_negotiation", ""}}},
		{name: "cancel, 4 byte key", in: packet(cancel + "key1"), kind: StartupCancel},
		{name: "cancel, 256 byte key", in: packet(cancel + strings.Repeat("k", 256)), kind: StartupCancel},
		{name: "cancel, 3 byte key", in: packet(cancel + "key"), code: "08P01", text: "invalid length of cancel request packet"},
		{name: "cancel, 257 byte key", in: packet(cancel + strings.Repeat("k", 257)), code: "08P01", text: "invalid length of cancel request packet"},
		{name: "ssl", in: packet("\x04\xd2\x16\x2f"), kind: StartupSSL},
		{name: "gss", in: packet("\x04\xd2\x16\x30"), kind: StartupGSSEnc},
		{name: "2.0", in: packet("\x00\x02\x00\x00" + strings.Repeat("\x00", 288)), code: "0A000",
			text: "unsupported frontend protocol 2.0: server supports 3.0 to 3.2"},
		{name: "1234.9999", in: packet("\x04\xd2\x27\x0f"), code: "0A000",
			text: "unsupported frontend protocol 1234.9999: server supports 3.0 to 3.2"},
		{name: "http", in: []byte("GET / HTTP/1.1\r\n\r\n"), code: "08P01", text: "invalid length of startup packet"},
		{name: "direct tls", in: []byte("\x16\x03\x01\x02"), kind: StartupTLS},
		{name: "negative length", in: []byte("\xff\xff\xff\xff\x00\x03\x00\x00"), code: "08P01", text: "invalid length of startup packet"},
		{name: "length without version", in: []byte("\x00\x00\x00\x07\x00\x03\x00"), code: "08P01", text: "invalid length of startup packet"},
		{name: "largest", in: packet(v30 + "a\x00" + strings.Repeat("x", maxStartup-4-2-2) + "\x00\x00"),
			params: []Param{{"a", strings.Repeat("x", maxStartup-4-2-2)}}},
		{name: "one more", in: packet(v30 + "a\x00" + strings.Repeat("x", maxStartup-4-2-1) + "\x00\x00"),
			code: "08P01", text: "invalid length of startup packet"},
		{name: "terminator missing", in: packet(v30 + "user\x00a\x00"), code: "08P01",
			text: "invalid startup packet layout: expected terminator as last byte"},
		{name: "terminator early", in: packet(v30 + "user\x00a\x00\x00x"), code: "08P01",
			text: "invalid startup packet layout: expected terminator as last byte"},
		{name: "value missing", in: packet(v30 + "user\x00"), code: "08P01",
			text: "invalid startup packet layout: expected terminator as last byte"},
		{name: "name unfinished", in: packet(v30 + "user"), code: "08P01",
			text: "invalid startup packet layout: expected terminator as last byte"},
		{name: "half", in: packet(v30 + "user\x00a\x00\x00")[:9], code: "08P01", text: "incomplete startup packet"},
		{name: "length only", in: []byte{0, 0, 0, 9}, code: "08P01", text: "incomplete startup packet"},
		{name: "half a length", in: []byte{0, 0}, code: "08P01", text: "incomplete startup packet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := bytes.NewReader(append(slices.Clone(c.in), "behind"...))
			if strings.HasPrefix(c.text, "incomplete") {
				in = bytes.NewReader(c.in)
			}
			s, err := ReadStartup(iotest.OneByteReader(in))
			if c.code != "" {
				var refusal *Error
				if !errors.As(err, &refusal) {
					t.Fatalf("got %v, want a refusal", err)
				}
				if refusal.Code != c.code || refusal.Message != c.text || refusal.Severity != "FATAL" {
					t.Fatalf("got %+v", refusal)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if s.Kind != c.kind || !bytes.Equal(s.Raw, c.in) || !slices.Equal(s.Params, c.params) {
				t.Fatalf("got %+v", s)
			}
			if rest, _ := io.ReadAll(in); string(rest) != "behind" {
				t.Fatalf("read past the packet: %q is left", rest)
			}
		})
	}
	if _, err := ReadStartup(strings.NewReader("")); err != io.EOF {
		t.Fatalf("closed before the first byte: %v", err)
	}
}

func TestStartupNames(t *testing.T) {
	s := Startup{Params: []Param{{"user", "a"}, {"user", "b"}}}
	if s.User() != "b" || s.Database() != "b" {
		t.Fatal("the last user counts, and names the database")
	}
	s.Params = append(s.Params, Param{"database", "d"})
	if s.Database() != "d" {
		t.Fatal(s.Database())
	}
}

func TestReplication(t *testing.T) {
	for v, want := range map[string]Replication{
		"database": ReplicationDatabase, "true": ReplicationPhysical, "T": ReplicationPhysical, "on": ReplicationPhysical,
		"YE": ReplicationPhysical, "1": ReplicationPhysical, "off": ReplicationNone, "of": ReplicationNone, "0": ReplicationNone,
		"false": ReplicationNone, "n": ReplicationNone, "o": ReplicationInvalid, "": ReplicationInvalid,
		"Database": ReplicationInvalid, "2": ReplicationInvalid,
	} {
		s := Startup{Params: []Param{{"replication", v}}}
		if got := s.Replication(); got != want {
			t.Errorf("%q: got %d, want %d", v, got, want)
		}
	}
	for _, c := range []struct {
		values []string
		want   Replication
	}{
		{[]string{"database", "true"}, ReplicationDatabase}, // and so takes SQL
		{[]string{"true", "database"}, ReplicationDatabase},
		{[]string{"database", "off", "on"}, ReplicationDatabase},
		{[]string{"database", "off"}, ReplicationNone},
		{[]string{"on", "off"}, ReplicationNone},
		{[]string{"off", "on"}, ReplicationPhysical},
		{[]string{"maybe", "database"}, ReplicationInvalid},
	} {
		var s Startup
		for _, v := range c.values {
			s.Params = append(s.Params, Param{"replication", v})
		}
		if got := s.Replication(); got != c.want {
			t.Errorf("%q: got %d, want %d", c.values, got, c.want)
		}
	}
}

func TestSetting(t *testing.T) {
	for _, c := range []struct {
		name   string
		params []Param
		want   string
		absent bool
	}{
		{name: "absent", params: []Param{{"user", "a"}, {"options", "-c other=1"}}, absent: true},
		{name: "parameter", params: []Param{{"Fence.TOKEN", "34"}}, want: "34"},
		{name: "option", params: []Param{{"options", "-c fence.token=34"}}, want: "34"},
		{name: "long option", params: []Param{{"options", "--fence.token=34"}}, want: "34"},
		{name: "parameter over option, whatever the order", params: []Param{{"fence.token", "1"}, {"options", "-c fence.token=2"}}, want: "1"},
		{name: "last parameter", params: []Param{{"fence.token", "1"}, {"fence.token", "2"}}, want: "2"},
		{name: "last options only", params: []Param{{"options", "-c fence.token=1"}, {"options", "-c a=2"}}, absent: true},
		{name: "last of the options", params: []Param{{"options", "-cfence.token=1 --FENCE.token=2"}}, want: "2"},
		{name: "user is no setting", params: []Param{{"_pq_.fence.token", "1"}}, absent: true},
	} {
		s := Startup{Params: c.params}
		v, present := s.Setting("fence.token")
		if v != c.want || present == c.absent {
			t.Errorf("%s: got %q %v", c.name, v, present)
		}
	}
}

func FuzzStartup(f *testing.F) {
	f.Add(packet("\x00\x03\x00\x00user\x00a\x00options\x00-c a=b\x00\x00"))
	f.Add(packet("\x04\xd2\x16\x2e\x00\x00\x00\x01key1"))
	f.Add(packet("\x04\xd2\x16\x2f"))
	f.Add(packet("\x00\x03\x00\x02user\x00\x00"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := ReadStartup(bytes.NewReader(in))
		if err != nil {
			return
		}
		if !bytes.HasPrefix(in, s.Raw) || len(s.Raw) > maxStartup+4 {
			t.Fatalf("raw is not the packet")
		}
		s.Setting("fence.token")
		s.Replication()
		if s.Kind != StartupSession {
			return
		}
		back := s.Raw[4:8:8]
		for _, p := range s.Params {
			back = append(append(append(append(back, p.Name...), 0), p.Value...), 0)
		}
		if !bytes.Equal(packet(string(append(back, 0))), s.Raw) {
			t.Fatalf("parameters %q do not make up %q", s.Params, s.Raw)
		}
	})
}
