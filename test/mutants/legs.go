package main

const (
	relay    = "wire/relay"
	protocol = "test/protocol"
)

func init() { mutants = append(mutants, legMutants...) }

// legMutants are the safeguards of what comes before a session, and of the corners of the protocol.
var legMutants = []mutant{
	{
		name: "TLS: a client in plain text is refused where TLS is demanded",
		file: "wire/relay/tlsserver.go",
		old:  "	case l.secure == nil && want.Require:\n",
		new:  "	case l.secure == nil && want.Require && l.unix():\n",
		pkg:  relay, tests: "TestTLSRefused",
	},
	{
		name: "TLS: direct TLS demands ALPN",
		file: "wire/relay/tlsserver.go",
		old:  "	if l.secure.NegotiatedProtocol != wire.ALPN {\n",
		new:  "	if l.secure.NegotiatedProtocol == \"imap\" {\n",
		pkg:  relay, tests: "TestTLSRefused",
	},
	{
		name: "TLS: the certificate of a client is the user's",
		file: "wire/relay/tlsserver.go",
		old:  "	case want.ClientCert == ClientCertVerifyFull && ",
		new:  "	case want.ClientCert > ClientCertVerifyFull && ",
		pkg:  relay, tests: "TestClientCertificates",
	},
	{
		name: "TLS: the certificate of a client is there",
		file: "wire/relay/tlsserver.go",
		old:  "	case len(l.secure.VerifiedChains) == 0:\n",
		new:  "	case len(l.secure.VerifiedChains) == 0 && want.ClientCert > ClientCertVerifyFull:\n",
		and:  []edit{{"wire/relay/tlsserver.go", "	case want.ClientCert == ClientCertVerifyFull && l", "	case want.ClientCert == ClientCertVerifyFull && len(l.secure.VerifiedChains) > 0 && l"}},
		pkg:  relay, tests: "TestClientCertificates",
	},
	{
		name: "TLS: no plain text to a server where TLS is demanded",
		file: "wire/relay/dial.go",
		old:  "	case refused && u.TLS.Wish == TLSPrefer:\n",
		new:  "	case refused:\n",
		pkg:  relay, tests: "TestUpstreamTLS",
	},
	{
		name: "TLS: no plain text to a server whose handshake fails",
		file: "wire/relay/dial.go",
		old:  "	case u.TLS.Wish == TLSPrefer && ctx.Err() == nil:\n",
		new:  "	case ctx.Err() == nil:\n",
		pkg:  relay, tests: "TestUpstreamTLS",
	},
	{
		name: "TLS: channel binding is not offered in plain text",
		file: "wire/relay/greeting.go",
		old:  "	if err == nil && mustStrip() {\n",
		new:  "	if err == nil && mustStrip() && u.TLS.Direct {\n",
		pkg:  relay, tests: "TestChannelBindingOffer",
	},
	{
		name: "TLS: two legs with two certificates are refused",
		file: "wire/relay/tlsserver.go",
		old:  "	if l.secure == nil || server.secure == nil || s.cfg.ClientTLS.Unbound {\n",
		new:  "	if l.secure == nil || server.secure == nil || s.cfg.ClientTLS != nil {\n",
		pkg:  relay, tests: "TestChannelBindingOffer",
	},
	{
		name: "TLS: records are small",
		file: "wire/relay/tlsserver.go",
		old:  "const maxRecord = 8 << 10\n",
		new:  "const maxRecord = 16 << 10\n",
		pkg:  relay, tests: "TestRecordsAreNotLarge",
	},
	{
		name: "SCRAM: the proof is checked",
		file: "wire/scramserver.go",
		old:  "	if !same || s.mock {\n",
		new:  "	if !same && proof == (ScramKey{}) || s.mock {\n",
		pkg:  "wire", tests: "TestScramProof|TestScramVector",
	},
	{
		name: "SCRAM: the client's key is that of the verifier",
		file: "wire/scramserver.go",
		old:  "	same := subtle.ConstantTimeCompare(stored[:], s.verifier.StoredKey[:]) == 1\n",
		new:  "	same := subtle.ConstantTimeCompare(stored[:], stored[:]) == 1\n",
		pkg:  "wire", tests: "TestScramProof",
	},
	{
		name: "SCRAM: a mock lets nobody in",
		file: "wire/scramserver.go",
		old:  "	return s.Challenge(&ScramVerifier{Iterations: iterations, Salt: salt})\n",
		new:  "	return s.Challenge(&s.verifier)\n",
		pkg:  "test/auth", tests: "TestScramChallengeOfUnknownUsers",
	},
	{
		name: "SCRAM: users whom no password lets in get a challenge",
		file: "wire/relay/authclient.go",
		old:  "	scram := wire.NewScramServer(g.client.binding())\n",
		new:  "	if g.verifier == nil {\n		return nil, key, g.notProven(\"\")\n	}\n	scram := wire.NewScramServer(g.client.binding())\n",
		pkg:  "test/auth", tests: "TestScramChallengeOfUnknownUsers",
	},
	{
		name: "SCRAM: a shortened offer is noticed",
		file: "wire/scramserver.go",
		old:  "		if s.flag == 'y' && s.binding != nil {\n",
		new:  "		if s.flag == 'y' && s.bound {\n",
		pkg:  "wire", tests: "TestScramClientMessages",
	},
	{
		name: "SCRAM: the nonce is ours",
		file: "wire/scramserver.go",
		old:  "	if nonce != s.nonce {\n",
		new:  "	if nonce == \"\" {\n",
		pkg:  "wire", tests: "TestScramClientMessages",
	},
	{
		name: "SCRAM: a remembered verifier is compared with PostgreSQL's challenge",
		file: "wire/relay/auth.go",
		old:  "g.upstream != nil && !g.upstream.Fits(v) {\n",
		new:  "g.upstream == nil {\n",
		pkg:  "test/auth", tests: "TestScramPasswordChanges",
	},
	{
		name: "a FunctionCall passes only for functions that are named",
		file: "wire/relay/functioncall.go",
		old:  "	case allowed:\n",
		new:  "	case allowed || oid > 1000:\n",
		pkg:  talk, tests: differential + "/protocol",
	},
	{
		name: "a replication=database session is inspected",
		file: "wire/relay/retire.go",
		old:  "		if physical { // ",
		new:  "		if physical || walsender { // ",
		pkg:  protocol, tests: "TestReplicationSessionIsFenced",
	},
	{
		name: "encodings that hide a backslash are not read by their bytes",
		file: "wire/relay/encoding.go",
		old:  "		return false\n	}\n	return true\n",
		new:  "		return false\n	}\n	return name == \"\"\n",
		pkg:  protocol, tests: "TestCharactersThatEndInABackslash",
	},
	{
		name: "a backslash may escape a quote",
		file: "wire/relay/encoding.go",
		old:  "		e.settings.BackslashQuotes = string(value) != \"on\"\n",
		new:  "",
		pkg:  protocol, tests: "TestBackslashesThatEscape",
	},
}
