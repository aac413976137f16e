package wire

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
)

// SCRAM (RFC 5802, RFC 7677) as PostgreSQL speaks it, for both ends of a proxy that knows no passwords: towards clients
// ScramServer, which recovers the ClientKey from the client's proof, and towards PostgreSQL ScramClient, which proves with
// that key. Libraries do not fit: their servers keep the recovered key to themselves, and their clients begin with the
// password.

// Names of the mechanisms.
const (
	ScramSHA256     = "SCRAM-SHA-256"
	ScramSHA256Plus = ScramSHA256 + bindingSuffix
)

// MaxSASLMessage bounds the body of a client's message in a SASL exchange (PG_MAX_SASL_MESSAGE_LENGTH of sasl.h).
const MaxSASLMessage = 1024

// endPoint is the gs2 header of the only type of channel binding that PostgreSQL knows.
const endPoint = "p=tls-server-end-point,,"

// ScramKey is a StoredKey, ServerKey or ClientKey.
type ScramKey [sha256.Size]byte

// ScramVerifier is what PostgreSQL keeps of a password. It lets its holder check a proof, but not make one.
type ScramVerifier struct {
	Iterations int
	Salt       []byte
	StoredKey  ScramKey
	ServerKey  ScramKey
}

var errNoVerifier = errors.New("not a SCRAM-SHA-256 verifier")

// ParseScramVerifier reads SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>, the form in pg_authid. The error
// does not repeat it.
func ParseScramVerifier(s string) (*ScramVerifier, error) {
	scheme, rest, _ := strings.Cut(s, "$")
	derivation, keys, _ := strings.Cut(rest, "$")
	count, salt, _ := strings.Cut(derivation, ":")
	stored, server, _ := strings.Cut(keys, ":")
	v := &ScramVerifier{}
	var err error
	if v.Iterations, err = iterations(count); err != nil || scheme != ScramSHA256 {
		return nil, errNoVerifier
	}
	if v.Salt, err = base64.StdEncoding.DecodeString(salt); err != nil || len(v.Salt) == 0 || len(v.Salt) > maxSalt {
		return nil, errNoVerifier
	}
	if !v.StoredKey.decode(stored) || !v.ServerKey.decode(server) {
		return nil, errNoVerifier
	}
	return v, nil
}

// maxSalt is far more than PostgreSQL's 16 bytes, and leaves a server-first-message that a client will take.
const maxSalt = 512

// iterations reads a count, 1 to 2³¹-1. The proxy never iterates itself, so that a large one costs only the client.
func iterations(s string) (int, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 1 || s[0] == '+' {
		return 0, errNoVerifier
	}
	return int(n), nil
}

func (k *ScramKey) decode(text string) bool {
	b, err := base64.StdEncoding.DecodeString(text)
	return err == nil && copy(k[:], b) == len(k) && len(b) == len(k)
}

func (k ScramKey) xor(other ScramKey) ScramKey {
	for i := range k {
		k[i] ^= other[i]
	}
	return k
}

// sign is HMAC-SHA-256 of a text under the key.
func (k ScramKey) sign(text string) (signature ScramKey) {
	h := hmac.New(sha256.New, k[:])
	h.Write([]byte(text))
	h.Sum(signature[:0])
	return signature
}

// stored is the StoredKey of a ClientKey.
func (k ScramKey) stored() ScramKey { return sha256.Sum256(k[:]) }

func (k ScramKey) text() string { return base64.StdEncoding.EncodeToString(k[:]) }

// sameDerivation reports whether both verifiers turn a password into the same keys.
func (v *ScramVerifier) sameDerivation(iterations int, salt []byte) bool {
	return v.Iterations == iterations && bytes.Equal(v.Salt, salt)
}

// newNonce is as long as PostgreSQL's (SCRAM_RAW_NONCE_LEN).
func newNonce() string {
	var b [18]byte
	rand.Read(b[:])
	return base64.StdEncoding.EncodeToString(b[:])
}
