package wire

import "testing"

func TestWithoutChannelBinding(t *testing.T) {
	const sasl = "\x00\x00\x00\x0a"
	for _, c := range []struct {
		name, body, want string
		left             int
		changed, ok      bool
	}{
		{"both", sasl + "SCRAM-SHA-256-PLUS\x00SCRAM-SHA-256\x00\x00", "R\x00\x00\x00\x17" + sasl + "SCRAM-SHA-256\x00\x00", 1, true, true},
		{"the other order", sasl + "SCRAM-SHA-256\x00SCRAM-SHA-256-PLUS\x00\x00", "R\x00\x00\x00\x17" + sasl + "SCRAM-SHA-256\x00\x00", 1, true, true},
		{"a mechanism to come", sasl + "SCRAM-SHA-512-PLUS\x00OAUTHBEARER\x00\x00", "R\x00\x00\x00\x15" + sasl + "OAUTHBEARER\x00\x00", 1, true, true},
		{"binding only", sasl + "SCRAM-SHA-256-PLUS\x00\x00", "R\x00\x00\x00\x09" + sasl + "\x00", 0, true, true},
		{"none with binding", sasl + "SCRAM-SHA-256\x00\x00", "", 1, false, true},
		{"md5", "\x00\x00\x00\x05salt", "", 0, false, true},
		{"no list", sasl, "", 0, false, false},
		{"list without end", sasl + "SCRAM-SHA-256\x00", "", 0, false, false},
		{"tail", sasl + "SCRAM-SHA-256-PLUS\x00\x00x", "", 0, false, false},
		{"empty", "", "", 0, false, true},
	} {
		message, left, changed, ok := WithoutChannelBinding([]byte(c.body))
		if ok != c.ok || ok && (left != c.left || changed != c.changed) || changed && ok && string(message) != c.want {
			t.Errorf("%s: %q, %d left, changed %v, ok %v", c.name, message, left, changed, ok)
		}
	}
}
