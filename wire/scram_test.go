package wire

import (
	"bytes"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
)

// keysOf are the keys of a password, as a client derives them.
func keysOf(t testing.TB, password string, salt []byte, iterations int) (client ScramKey, v *ScramVerifier) {
	t.Helper()
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		t.Fatal(err)
	}
	client = ScramKey(salted).sign("Client Key")
	return client, &ScramVerifier{Iterations: iterations, Salt: salt, StoredKey: client.stored(), ServerKey: ScramKey(salted).sign("Server Key")}
}

// The exchange of RFC 7677, 3, by both ends.
func TestScramVector(t *testing.T) {
	salt, _ := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	client, v := keysOf(t, "pencil", salt, 4096)
	const (
		ours, theirs = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
		first        = "n,,n=user,r=" + ours
		second       = "r=" + ours + theirs + ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
		third        = "c=biws,r=" + ours + theirs + ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
		last         = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
	)
	s := NewScramServer(nil)
	s.nonce = theirs
	c := NewScramClient([]string{ScramSHA256}, nil)
	c.nonce, c.bare = ours, "n=user,r="+ours
	if got := string(c.First()); got != first {
		t.Errorf("client-first %q", got)
	}
	if err := s.First([]byte(first)); err != nil {
		t.Fatal(err)
	}
	if got := string(s.Challenge(v)); got != second {
		t.Errorf("server-first %q", got)
	}
	if err := c.Challenge([]byte(second)); err != nil || !c.Fits(v) {
		t.Fatal(err)
	}
	if got := string(c.Final(client)); got != third {
		t.Errorf("client-final %q", got)
	}
	answer, key, proven, err := s.Final([]byte(third))
	if err != nil || !proven || key != client || string(answer) != last {
		t.Fatalf("%q, the client's key %v, proven %v, %v", answer, key == client, proven, err)
	}
	if err := c.Verify(answer, v.ServerKey); err != nil {
		t.Fatal(err)
	}
	if c.Verify(answer, v.StoredKey) == nil {
		t.Error("took the signature of another key")
	}
}

func TestScramVerifierText(t *testing.T) {
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	good := "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$" + key + ":" + key
	if v, err := ParseScramVerifier(good); err != nil || v.Iterations != 4096 || len(v.Salt) != 16 || v.ServerKey[31] != 7 {
		t.Fatalf("%+v %v", v, err)
	}
	for name, text := range map[string]string{
		"empty": "", "md5": "md5" + strings.Repeat("0", 32), "plain": "secret", "another hash": strings.Replace(good, "256", "512", 1),
		"no iterations": strings.Replace(good, "4096", "", 1), "zero": strings.Replace(good, "4096", "0", 1),
		"negative": strings.Replace(good, "4096", "-1", 1), "signed": strings.Replace(good, "4096", "+1", 1),
		"2^31": strings.Replace(good, "4096", "2147483648", 1), "no salt": strings.Replace(good, "W22ZaJ0SNY7soEsUEjb6gQ==", "", 1),
		"salt is not base64": strings.Replace(good, "W22Z", "W2*Z", 1), "one key": good[:len(good)-len(key)-1],
		"short key": strings.Replace(good, key+":", key[:40]+":", 1), "tail": good + ":" + key,
		"large salt": strings.Replace(good, "W22ZaJ0SNY7soEsUEjb6gQ==", strings.Repeat("AAAA", 200), 1),
	} {
		if v, err := ParseScramVerifier(text); err == nil {
			t.Errorf("%s: %+v", name, v)
		} else if strings.Contains(err.Error(), key) {
			t.Errorf("%s: the error shows the key", name)
		}
	}
}

// What a client may say, with PostgreSQL's codes and words.
func TestScramClientMessages(t *testing.T) {
	cert := []byte("0123456789abcdef0123456789abcdef")
	salt := []byte("sixteen bytes ok")
	client, v := keysOf(t, "pencil", salt, 10)
	bound := "c=" + base64.StdEncoding.EncodeToString(append([]byte("p=tls-server-end-point,,"), cert...))
	const sha, plus = ScramSHA256, ScramSHA256Plus
	for _, tc := range []struct {
		name, mechanism string
		binding         []byte
		first           string // R is the client's nonce
		final           string // up to the proof; R is the whole nonce
		code, says      string
	}{
		{"plain", sha, nil, "n,,n=,r=R", "c=biws,r=R", "", ""},
		{"could bind, was not offered to", sha, nil, "y,,n=,r=R", "c=eSws,r=R", "", ""},
		{"bound", plus, cert, "p=tls-server-end-point,,n=,r=R", bound + ",r=R", "", ""},
		{"TLS, does not bind", sha, cert, "n,,n=,r=R", "c=biws,r=R", "", ""},
		{"extensions", sha, nil, "n,,n=u,r=R,x=1", "c=biws,r=R,y=2", "", ""},
		{"no such mechanism", "SCRAM-SHA-1", nil, "", "", "08P01", "client selected an invalid SASL authentication mechanism"},
		{"binding without TLS", plus, nil, "", "", "08P01", "client selected an invalid SASL authentication mechanism"},
		{"downgrade", sha, cert, "y,,n=,r=R", "", "28000", "SCRAM channel binding negotiation error"},
		{"PLUS without a binding", plus, cert, "n,,n=,r=R", "", "08P01", "malformed SCRAM message"},
		{"PLUS that was not offered", plus, cert, "y,,n=,r=R", "", "08P01", "malformed SCRAM message"},
		{"a binding without PLUS", sha, cert, "p=tls-server-end-point,,n=,r=R", "", "08P01", "malformed SCRAM message"},
		{"another binding", plus, cert, "p=tls-unique,,n=,r=R", "", "08P01", `unsupported SCRAM channel-binding type "tls-unique"`},
		{"authorization identity", sha, nil, "n,a=root,n=,r=R", "", "0A000", "client uses authorization identity, but it is not supported"},
		{"mandatory extension", sha, nil, "n,,m=x,n=,r=R", "", "0A000", "client requires an unsupported SCRAM extension"},
		{"nonce", sha, nil, "n,,n=,r=a\x01b", "", "08P01", "non-printable characters in SCRAM nonce"},
		{"no nonce", sha, nil, "n,,n=", "", "08P01", "malformed SCRAM message"},
		{"no user", sha, nil, "n,,r=R", "", "08P01", "malformed SCRAM message"},
		{"unknown flag", sha, nil, "z,,n=,r=R", "", "08P01", "malformed SCRAM message"},
		{"no comma", sha, nil, "nn", "", "08P01", "malformed SCRAM message"},
		{"empty", sha, nil, "\x00", "", "08P01", "malformed SCRAM message"},
		{"zero byte", sha, nil, "n,,n=,r=R\x00", "", "08P01", "malformed SCRAM message"},
		{"garbage", sha, nil, "n,,n=,r=R,=", "", "08P01", "malformed SCRAM message"},
		{"binding to another certificate", plus, cert, "p=tls-server-end-point,,n=,r=R", strings.ToUpper(bound[:2]) + bound[2:len(bound)-4] + "AAA=,r=R", "08P01", ""},
		{"bound to another certificate", plus, cert, "p=tls-server-end-point,,n=,r=R", bound[:len(bound)-4] + "AAA=,r=R", "28000", "SCRAM channel binding check failed"},
		{"another header", sha, nil, "n,,n=,r=R", "c=eSws,r=R", "08P01", "unexpected SCRAM channel-binding attribute in client-final-message"},
		{"another nonce", sha, nil, "n,,n=,r=R", "c=biws,r=Rx", "08P01", "invalid SCRAM response"},
		{"own nonce only", sha, nil, "n,,n=,r=R", "c=biws,r=abc", "08P01", "invalid SCRAM response"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := NewScramServer(tc.binding)
			err := s.Begin(tc.mechanism)
			if err == nil {
				err = s.First([]byte(strings.Replace(tc.first, ",r=R", ",r=abc", 1)))
			}
			if err == nil && tc.final != "" {
				s.Challenge(v)
				unproven := strings.Replace(tc.final, ",r=R", ",r="+s.nonce, 1)
				proof := client.xor(client.stored().sign(s.first + "," + s.second + "," + unproven))
				var proven bool
				_, _, proven, err = s.Final([]byte(unproven + ",p=" + proof.text()))
				if err == nil && !proven {
					t.Error("not proven")
				}
			}
			switch {
			case err == nil && tc.code != "", err != nil && (err.Code != tc.code || tc.says != "" && err.Message != tc.says):
				t.Errorf("got %v", err)
			case err != nil && err.Severity != "FATAL":
				t.Errorf("severity %s", err.Severity)
			}
		})
	}
}

// Only the password lets in, and a mock lets nobody in.
func TestScramProof(t *testing.T) {
	salt := []byte("sixteen bytes ok")
	right, v := keysOf(t, "right", salt, 10)
	wrong, _ := keysOf(t, "wrong", salt, 10)
	for name, tc := range map[string]struct {
		key    ScramKey
		mock   bool
		change func(string) string
		want   bool
		code   string
	}{
		"right":       {key: right, want: true},
		"wrong":       {key: wrong},
		"stored key":  {key: v.StoredKey},
		"zero":        {},
		"mock":        {key: right, mock: true},
		"mock, zero":  {mock: true},
		"no proof":    {key: right, change: func(s string) string { return s[:strings.Index(s, ",p=")] }, code: "08P01"},
		"short proof": {key: right, change: func(s string) string { return s[:len(s)-8] }, code: "08P01"},
		"behind":      {key: right, change: func(s string) string { return s + ",x=1" }, code: "08P01"},
		"inserted":    {key: right, change: func(s string) string { return strings.Replace(s, ",p=", ",x=1,p=", 1) }},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := NewScramServer(nil), NewScramClient([]string{ScramSHA256}, nil)
			if err := s.First(c.First()); err != nil {
				t.Fatal(err)
			}
			challenge := func() []byte {
				if tc.mock {
					return s.Mock(salt, 10)
				}
				return s.Challenge(v)
			}()
			if err := c.Challenge(challenge); err != nil {
				t.Fatal(err)
			}
			final := string(c.Final(tc.key))
			if tc.change != nil {
				final = tc.change(final)
			}
			answer, key, proven, err := s.Final([]byte(final))
			if proven != tc.want || !proven && (answer != nil || key != ScramKey{}) || (err != nil) != (tc.code != "") {
				t.Errorf("proven %v, %v", proven, err)
			}
		})
	}
}

func TestScramServerMessages(t *testing.T) {
	for name, message := range map[string]string{
		"empty": "", "own nonce only": "r=N,s=AAAA,i=1", "another nonce": "r=xyz,s=AAAA,i=1", "no salt": "r=Nx,s=,i=1", "no count": "r=Nx,s=AAAA",
		"zero": "r=Nx,s=AAAA,i=0", "not a number": "r=Nx,s=AAAA,i=1e3", "order": "s=AAAA,r=Nx,i=1", "error": "e=other-error",
	} {
		c := NewScramClient([]string{ScramSHA256}, nil)
		if err := c.Challenge([]byte(strings.Replace(message, "N", c.nonce, 1))); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for name, tc := range map[string]struct {
		offered []string
		binding []byte
		want    string // mechanism and header
	}{
		"both, TLS":    {[]string{ScramSHA256Plus, ScramSHA256}, []byte{1}, ScramSHA256Plus + " " + endPoint},
		"both, plain":  {[]string{ScramSHA256Plus, ScramSHA256}, nil, ScramSHA256 + " n,,"},
		"stripped":     {[]string{ScramSHA256}, []byte{1}, ScramSHA256 + " y,,"},
		"binding only": {[]string{ScramSHA256Plus}, nil, ""},
		"unknown":      {[]string{"OAUTHBEARER"}, []byte{1}, ""},
	} {
		c, got := NewScramClient(tc.offered, tc.binding), ""
		if c != nil {
			got = c.Mechanism() + " " + c.header
		}
		if got != tc.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func FuzzScramClientMessages(f *testing.F) {
	f.Add([]byte("n,,n=,r=abc"), []byte("c=biws,r=abc,p=AAAA"), false)
	f.Add([]byte("y,,n=,r=abc,x=1"), []byte("c=eSws,r=abc,x=1,p="), false)
	f.Add([]byte("p=tls-server-end-point,,n=u,r=abc"), []byte("c=cD10bHMtc2VydmVyLWVuZC1wb2ludCwsAQ==,r=abc,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="), true)
	f.Add([]byte("n,a=x,m=1"), []byte("p=,p=,=,"), false)
	_, v := keysOf(f, "pencil", []byte("salt"), 1)
	f.Fuzz(func(t *testing.T, first, final []byte, bound bool) {
		var binding []byte
		mechanism := ScramSHA256
		if bound {
			binding, mechanism = []byte{1}, ScramSHA256Plus
		}
		s := NewScramServer(binding)
		s.nonce = ""
		if err := s.Begin(mechanism); err != nil {
			t.Fatal(err)
		}
		if s.First(first) != nil {
			return
		}
		if bound != bytes.HasPrefix(first, []byte("p=")) || bytes.IndexByte(first, 0) >= 0 {
			t.Fatalf("took %q, bound %v", first, bound)
		}
		s.Challenge(v)
		if _, _, proven, _ := s.Final(final); proven {
			t.Fatalf("%q is a proof", final)
		}
	})
}

func FuzzSASLInitialResponse(f *testing.F) {
	f.Add([]byte("SCRAM-SHA-256\x00\x00\x00\x00\x03n,,"))
	f.Add([]byte("SCRAM-SHA-256\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		mechanism, response, present, err := SASLInitialResponse(b)
		if err != nil {
			return
		}
		again := AppendSASLInitialResponse(nil, mechanism, response)[HeaderLen:]
		if present && !bytes.Equal(again, b) {
			t.Fatalf("%q became %q", b, again)
		}
	})
}
