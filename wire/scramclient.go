package wire

import (
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
)

// ScramClient is the client's side of one exchange, for somebody who has a ClientKey in place of the password. The calls
// come in the order First, Challenge, Final, Verify.
type ScramClient struct {
	mechanism string
	header    string // gs2
	binding   []byte
	bare      string // client-first-message-bare
	nonce     string
	second    string // server-first-message
	exchange  string // AuthMessage

	iterations int
	salt       []byte
}

var errScramServer = errors.New("the server's part of the SCRAM exchange is malformed")

// NewScramClient chooses of the mechanisms that a server offers; nil when there is none that it knows. binding is the hash
// of the server's certificate (EndPointBinding), nil without TLS.
func NewScramClient(offered []string, binding []byte) *ScramClient {
	c := &ScramClient{nonce: newNonce()}
	switch {
	case binding != nil && slices.Contains(offered, ScramSHA256Plus):
		c.mechanism, c.header, c.binding = ScramSHA256Plus, endPoint, binding
	case !slices.Contains(offered, ScramSHA256):
		return nil
	case binding != nil: // a server that did offer it takes this for what it is, an attack
		c.mechanism, c.header = ScramSHA256, "y,,"
	default:
		c.mechanism, c.header = ScramSHA256, "n,,"
	}
	c.bare = "n=,r=" + c.nonce // PostgreSQL takes the user of the startup packet
	return c
}

// Mechanism is the one that was chosen.
func (c *ScramClient) Mechanism() string { return c.mechanism }

// First is the client-first-message.
func (c *ScramClient) First() []byte { return []byte(c.header + c.bare) }

// Challenge takes the server-first-message.
func (c *ScramClient) Challenge(message []byte) error {
	t := &scramText{string(message)}
	nonce, e1 := t.value('r')
	salt, e2 := t.value('s')
	count, e3 := t.value('i')
	if e1 != nil || e2 != nil || e3 != nil {
		return errScramServer
	}
	if len(nonce) <= len(c.nonce) || !strings.HasPrefix(nonce, c.nonce) || !printable(nonce) {
		return errors.New("the server's nonce does not continue ours")
	}
	var err error
	if c.salt, err = base64.StdEncoding.DecodeString(salt); err != nil || len(c.salt) == 0 || len(c.salt) > maxSalt {
		return errScramServer
	}
	if c.iterations, err = iterations(count); err != nil {
		return errScramServer
	}
	c.nonce, c.second = nonce, string(message)
	return nil
}

// Derivation is what the server turns passwords of the user into keys with.
func (c *ScramClient) Derivation() (salt []byte, iterations int) { return c.salt, c.iterations }

// Fits reports whether the server has the salt and the iterations of v: a key that was proven against v is of no use
// otherwise.
func (c *ScramClient) Fits(v *ScramVerifier) bool { return v.sameDerivation(c.iterations, c.salt) }

// Final is the client-final-message, which proves the key.
func (c *ScramClient) Final(key ScramKey) []byte {
	unproven := "c=" + base64.StdEncoding.EncodeToString(append([]byte(c.header), c.binding...)) + ",r=" + c.nonce
	c.exchange = c.bare + "," + c.second + "," + unproven
	return []byte(unproven + ",p=" + key.xor(key.stored().sign(c.exchange)).text())
}

// Verify takes the server-final-message: whether the server knows the ServerKey.
func (c *ScramClient) Verify(message []byte, server ScramKey) error {
	t := &scramText{string(message)}
	text, e := t.value('v')
	var signature ScramKey
	if e != nil || !signature.decode(text) {
		return errScramServer
	}
	want := server.sign(c.exchange)
	if subtle.ConstantTimeCompare(signature[:], want[:]) != 1 {
		return errors.New("the server does not know the password's verifier")
	}
	return nil
}
