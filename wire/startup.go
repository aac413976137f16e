package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// StartupKind tells the packets apart that a client may send first.
type StartupKind uint8

const (
	StartupSession StartupKind = iota // protocol 3.x: Version and Params are set
	StartupCancel
	StartupSSL
	StartupGSSEnc
	StartupTLS // the first four bytes of a TLS handshake that no SSLRequest came before
)

// Codes that stand in a startup packet where the version is (pqcomm.h).
const (
	cancelCode = 1234<<16 | 5678
	sslCode    = 1234<<16 | 5679
	gssEncCode = 1234<<16 | 5680
)

// tlsHandshake is the type of the first record of a TLS session (RFC 8446, 5.1).
const tlsHandshake = 0x16

// SSLRequest asks a server for TLS; it answers with one byte, S or N. Not to be changed.
var SSLRequest = []byte{0, 0, 0, 8, sslCode >> 24, sslCode >> 16 & 0xff, sslCode >> 8 & 0xff, sslCode & 0xff}

// Bounds of the first packet.
const (
	maxStartup   = 10000 // MAX_STARTUP_PACKET_LENGTH of pqcomm.h, the length word not counted
	minCancelKey = 4
	maxCancelKey = 256 // protocol 3.2
)

// Param is a name and a value of a startup packet or of its options.
type Param struct{ Name, Value string }

// Startup is the first packet of a connection.
type Startup struct {
	Kind    StartupKind
	Raw     []byte // the packet as it came, length word included
	Version uint32 // major<<16 | minor
	Params  []Param
}

// ReadStartup reads one startup packet from r and not a byte behind it, so that nothing a client sends in plain text
// can slip into a TLS session that begins after an SSLRequest (CVE-2021-23214). It takes at most 10,004 bytes; of a TLS
// handshake it takes the first four. The error is an *Error when the packet is to be refused with a FATAL, else that of r: io.EOF when the client closed before the
// first byte. Any minor version of protocol 3 and any parameter is taken: what of it is known is the server's business.
func ReadStartup(r io.Reader) (Startup, error) {
	var word [4]byte
	if _, err := io.ReadFull(r, word[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return Startup{}, protocolViolation("incomplete startup packet")
		}
		return Startup{}, err
	}
	if word[0] == tlsHandshake { // no packet is as long as that (postmaster's ProcessSSLStartup looks at the same byte)
		return Startup{Kind: StartupTLS, Raw: word[:]}, nil
	}
	n := binary.BigEndian.Uint32(word[:])
	if n < 8 || n-4 > maxStartup {
		return Startup{}, NotAStartupPacket()
	}
	raw := make([]byte, n)
	copy(raw, word[:])
	if _, err := io.ReadFull(r, raw[4:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return Startup{}, protocolViolation("incomplete startup packet")
		}
		return Startup{}, err
	}
	return parseStartup(raw)
}

// parseStartup reads a whole startup packet, length word included. The result aliases raw. Errors are *Error.
func parseStartup(raw []byte) (Startup, error) {
	if len(raw) < 8 || len(raw)-4 > maxStartup || int(binary.BigEndian.Uint32(raw)) != len(raw) {
		return Startup{}, NotAStartupPacket()
	}
	s := Startup{Raw: raw, Version: binary.BigEndian.Uint32(raw[4:])}
	switch s.Version {
	case cancelCode:
		s.Kind = StartupCancel
		if key := len(raw) - 12; key < minCancelKey || key > maxCancelKey {
			return s, protocolViolation("invalid length of cancel request packet")
		}
		return s, nil
	case sslCode:
		s.Kind = StartupSSL
		return s, nil
	case gssEncCode:
		s.Kind = StartupGSSEnc
		return s, nil
	}
	if s.Version>>16 != 3 {
		return s, UnsupportedProtocol(s.Version)
	}
	var ok bool
	if s.Params, ok = parseParams(raw[8:]); !ok {
		return s, protocolViolation("invalid startup packet layout: expected terminator as last byte")
	}
	return s, nil
}

// parseParams reads name and value pairs up to an empty name, which must be the last byte (ProcessStartupPacket).
func parseParams(b body) (params []Param, ok bool) {
	for {
		name, ok := b.cstring()
		if !ok {
			return nil, false
		}
		if len(name) == 0 {
			return params, len(b) == 0
		}
		value, ok := b.cstring()
		if !ok {
			return nil, false
		}
		params = append(params, Param{string(name), string(value)})
	}
}

// Error makes e an error; its text is for the log.
func (e *Error) Error() string { return e.Message + " (SQLSTATE " + e.Code + ")" }

// NotAStartupPacket is PostgreSQL's answer to what cannot be one.
func NotAStartupPacket() *Error { return protocolViolation("invalid length of startup packet") }

func protocolViolation(text string) *Error {
	return &Error{Severity: "FATAL", Code: "08P01", Message: text}
}

// UnsupportedProtocol is PostgreSQL's answer to a version it does not speak, and to an SSLRequest or GSSENCRequest that
// comes a second time.
func UnsupportedProtocol(version uint32) *Error {
	return &Error{Severity: "FATAL", Code: "0A000", Message: fmt.Sprintf(
		"unsupported frontend protocol %d.%d: server supports 3.0 to 3.2", version>>16, version&0xffff)}
}

// param is the last value of a parameter that PostgreSQL keeps only once.
func (s *Startup) param(name string) (value string, present bool) {
	for i := len(s.Params) - 1; i >= 0; i-- {
		if s.Params[i].Name == name {
			return s.Params[i].Value, true
		}
	}
	return "", false
}

// User is the role that the client asks for; "" when it names none, which the server refuses.
func (s *Startup) User() string {
	user, _ := s.param("user")
	return user
}

// Database is the database that the client asks for; the user's name when it names none.
func (s *Startup) Database() string {
	if db, _ := s.param("database"); db != "" {
		return db
	}
	return s.User()
}

// Replication is what the parameter of that name asks for.
type Replication uint8

const (
	ReplicationNone     Replication = iota
	ReplicationPhysical             // replication commands only
	ReplicationDatabase             // replication commands and SQL
	ReplicationInvalid              // no boolean and not "database": the server refuses it
)

// Replication reads the parameters of that name as PostgreSQL does, one after the other: a boolean in any of its spellings,
// or "database", which a boolean behind it does not take back (postmaster.c ProcessStartupPacket, am_db_walsender).
func (s *Startup) Replication() Replication {
	r, database := ReplicationNone, false
	for _, p := range s.Params {
		if p.Name != "replication" {
			continue
		}
		switch on, ok := parseBool(p.Value); {
		case p.Value == "database":
			r, database = ReplicationDatabase, true
		case !ok:
			return ReplicationInvalid
		case !on:
			r = ReplicationNone
		case database:
			r = ReplicationDatabase
		default:
			r = ReplicationPhysical
		}
	}
	return r
}

// parseBool is bool.c parse_bool_with_len: prefixes of the words, in any case.
func parseBool(s string) (value, ok bool) {
	s = strings.ToLower(s)
	switch {
	case s == "":
		return false, false
	case strings.HasPrefix("true", s), strings.HasPrefix("yes", s), s == "on", s == "1":
		return true, true
	case strings.HasPrefix("false", s), strings.HasPrefix("no", s), s == "off", s == "of", s == "0":
		return false, true
	}
	return false, false
}

// With is the packet with one parameter more, behind the others, so that it wins over them. Name and value must not hold
// a zero byte.
func (s *Startup) With(name, value string) Startup {
	raw := append(make([]byte, 0, len(s.Raw)+len(name)+len(value)+2), s.Raw[:len(s.Raw)-1]...) // without the terminator
	raw = append(append(append(append(raw, name...), 0), value...), 0, 0)
	binary.BigEndian.PutUint32(raw, uint32(len(raw)))
	c := *s
	c.Raw, c.Params = raw, append(slices.Clip(s.Params), Param{name, value})
	return c
}
