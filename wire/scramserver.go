package wire

import (
	"crypto/subtle"
	"encoding/base64"
	"strconv"
	"strings"
)

// ScramServer is the server's side of one exchange. The calls come in the order Begin, First, Challenge, Final. Errors are
// PostgreSQL's and end the connection.
type ScramServer struct {
	binding  []byte // hash of the certificate that the client sees; nil: channel binding is not offered
	bound    bool   // the client has chosen it
	flag     byte   // of the gs2 header
	nonce    string // ours; then the client's and ours
	first    string // client-first-message-bare
	second   string // server-first-message
	verifier ScramVerifier
	mock     bool
}

// NewScramServer begins an exchange with a client that sees the certificate of the hash (EndPointBinding); nil without
// TLS.
func NewScramServer(binding []byte) *ScramServer {
	return &ScramServer{binding: binding, nonce: newNonce()}
}

// Mechanisms are those to be offered.
func (s *ScramServer) Mechanisms() []string {
	if s.binding == nil {
		return []string{ScramSHA256}
	}
	return []string{ScramSHA256Plus, ScramSHA256}
}

// Begin takes the mechanism that the client has chosen.
func (s *ScramServer) Begin(mechanism string) *Error {
	switch {
	case mechanism == ScramSHA256Plus && s.binding != nil:
		s.bound = true
	case mechanism != ScramSHA256:
		return protocolViolation("client selected an invalid SASL authentication mechanism")
	}
	return nil
}

// First takes the client-first-message (read_client_first_message).
func (s *ScramServer) First(message []byte) *Error {
	t, err := scramMessage(message)
	if err != nil {
		return err
	}
	if err := s.header(t); err != nil {
		return err
	}
	if t.first() == 'a' {
		return unsupportedScram("client uses authorization identity, but it is not supported")
	}
	if t.first() != ',' {
		return malformedScram("Unexpected attribute \"%s\" in client-first-message.", shownChar(t.first()))
	}
	t.skip()
	s.first = t.rest
	if t.first() == 'm' {
		return unsupportedScram("client requires an unsupported SCRAM extension")
	}
	if _, err := t.value('n'); err != nil { // the user is the one of the startup packet
		return err
	}
	nonce, err := t.value('r')
	if err != nil {
		return err
	}
	if !printable(nonce) {
		return protocolViolation("non-printable characters in SCRAM nonce")
	}
	s.nonce = nonce + s.nonce
	for t.rest != "" {
		if _, _, err := t.any(); err != nil {
			return err
		}
	}
	return nil
}

// header reads the flag of channel binding. A client that could bind and believes that it was not offered to has been
// shown a shortened offer (RFC 5802, 6).
func (s *ScramServer) header(t *scramText) *Error {
	s.flag = t.first()
	switch s.flag {
	case 'n', 'y':
		if s.bound {
			return malformedScram("The client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel binding data.")
		}
		if s.flag == 'y' && s.binding != nil {
			return &Error{Severity: "FATAL", Code: "28000", Message: "SCRAM channel binding negotiation error",
				Detail: "The client supports SCRAM channel binding but thinks the server does not.  However, this server does support channel binding."}
		}
		t.skip()
		return t.comma()
	case 'p':
		if !s.bound {
			return malformedScram("The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel binding data.")
		}
		kind, err := t.value('p')
		if err != nil {
			return err
		}
		if kind != "tls-server-end-point" {
			return protocolViolation("unsupported SCRAM channel-binding type \"" + shownText(kind) + "\"")
		}
		return nil
	}
	return malformedScram("Unexpected channel-binding flag \"%s\".", shownChar(s.flag))
}

// Challenge is the server-first-message for a user with this verifier.
func (s *ScramServer) Challenge(v *ScramVerifier) []byte {
	s.verifier = *v
	s.second = "r=" + s.nonce + ",s=" + base64.StdEncoding.EncodeToString(v.Salt) + ",i=" + strconv.Itoa(v.Iterations)
	return []byte(s.second)
}

// Mock is Challenge for a user whom no password lets in. The exchange goes on as any other, and fails.
func (s *ScramServer) Mock(salt []byte, iterations int) []byte {
	s.mock = true
	return s.Challenge(&ScramVerifier{Iterations: iterations, Salt: salt})
}

// Final takes the client-final-message. proven: the client knows the password; key is its ClientKey, and answer the
// server-final-message. An error says that the message is wrong by itself.
func (s *ScramServer) Final(message []byte) (answer []byte, key ScramKey, proven bool, err *Error) {
	proof, unproven, err := s.readFinal(message)
	if err != nil {
		return nil, key, false, err
	}
	exchange := s.first + "," + s.second + "," + unproven
	key = proof.xor(s.verifier.StoredKey.sign(exchange))
	stored := key.stored()
	same := subtle.ConstantTimeCompare(stored[:], s.verifier.StoredKey[:]) == 1
	if !same || s.mock {
		return nil, ScramKey{}, false, nil
	}
	return []byte("v=" + s.verifier.ServerKey.sign(exchange).text()), key, true, nil
}

// readFinal is read_client_final_message. unproven is the message without its proof.
func (s *ScramServer) readFinal(message []byte) (proof ScramKey, unproven string, err *Error) {
	t, err := scramMessage(message)
	if err != nil {
		return proof, "", err
	}
	whole := t.rest
	binding, err := t.value('c')
	if err != nil {
		return proof, "", err
	}
	switch {
	case s.bound && binding != base64.StdEncoding.EncodeToString(append([]byte(endPoint), s.binding...)):
		return proof, "", &Error{Severity: "FATAL", Code: "28000", Message: "SCRAM channel binding check failed"}
	case !s.bound && binding != base64.StdEncoding.EncodeToString([]byte{s.flag, ',', ','}):
		return proof, "", protocolViolation("unexpected SCRAM channel-binding attribute in client-final-message")
	}
	nonce, err := t.value('r')
	if err != nil {
		return proof, "", err
	}
	for {
		unproven = whole[:len(whole)-len(t.rest)]
		name, value, err := t.any()
		if err != nil {
			return proof, "", err
		}
		if name != 'p' {
			continue
		}
		if !proof.decode(value) {
			return proof, "", malformedScram("Malformed proof in client-final-message.")
		}
		break
	}
	if t.rest != "" {
		return proof, "", malformedScram("Garbage found at the end of client-final-message.")
	}
	if nonce != s.nonce {
		e := protocolViolation("invalid SCRAM response")
		e.Detail = "Nonce does not match."
		return proof, "", e
	}
	return proof, strings.TrimSuffix(unproven, ","), nil
}

// scramMessage begins to read a client's message (scram_exchange).
func scramMessage(message []byte) (*scramText, *Error) {
	text := string(message)
	switch {
	case text == "":
		return nil, malformedScram("The message is empty.")
	case strings.IndexByte(text, 0) >= 0:
		return nil, malformedScram("Message length does not match input length.")
	}
	return &scramText{text}, nil
}

func unsupportedScram(text string) *Error {
	return &Error{Severity: "FATAL", Code: "0A000", Message: text}
}
