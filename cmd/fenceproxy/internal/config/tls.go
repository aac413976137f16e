package config

import (
	"strings"

	"github.com/fenceproxy/fenceproxy/wire"
)

// Files are what the client leg's TLS is loaded from.
func (t *TLS) Files() wire.TLSFiles {
	f := wire.TLSFiles{Cert: t.Cert, Key: t.Key}
	if t.ClientCert != ClientCertNone {
		f.ClientCA = t.ClientCA
	}
	return f
}

// checkTLS finds what is wrong between the settings of the client leg, and in its files.
func (f *file) checkTLS() {
	t := &f.config.TLS
	if t.Mode == TLSDisable {
		// Nobody names a certificate and wants none of it, unless he says so.
		for _, key := range []string{"tls.cert", "tls.key", "tls.client_ca", "tls.client_cert"} {
			at, given := f.origins[key]
			if _, decided := f.origins["tls.mode"]; given && !decided {
				f.errs.add(at, "%s without tls.mode, which is disable: set it to allow or require", key)
				return
			}
		}
		return
	}
	for _, need := range []struct{ key, value string }{{"tls.cert", t.Cert}, {"tls.key", t.Key}} {
		if need.value == "" {
			f.errs.add(f.origins["tls.mode"], "tls.mode %s needs %s", t.Mode, need.key)
			return
		}
	}
	if t.ClientCert != ClientCertNone {
		switch {
		case t.ClientCA == "":
			f.errs.add(f.origins["tls.client_cert"], "tls.client_cert %s needs tls.client_ca", t.ClientCert)
			return
		case t.Mode != TLSRequire:
			f.errs.add(f.origins["tls.client_cert"], "tls.client_cert %s needs tls.mode require: a client in plain text shows no certificate", t.ClientCert)
			return
		}
	}
	if _, err := t.Files().Load(); err != nil {
		f.errs.add(f.origins["tls.cert"], "tls: %s", err)
	}
}

// checkBothLegs refuses TLS on both legs unless it is said how clients can log in. The proxy relays the exchange of
// SCRAM and knows no passwords, and since PostgreSQL 11 libpq binds that exchange to the certificate that it sees, which
// PostgreSQL compares with its own. What the client would be told never mentions the proxy, so it is said here.
func (f *file) checkBothLegs() {
	c := f.config
	if c.TLS.Mode == TLSDisable || c.Auth == AuthScram || c.TLS.ChannelBinding != "" || c.Upstream == "" || !c.listensOnTCP() {
		return
	}
	u, err := parseUpstream(c.Upstream)
	if err != nil || u.TLS == UpstreamPlain {
		return // the error was reported already
	}
	f.errs.add(f.origins["tls.mode"], "TLS to clients (tls.mode %s) and to PostgreSQL (sslmode of the upstream): clients that bind "+
		"their SCRAM password exchange to the certificate, as libpq and JDBC do, could not log in. Either set sslmode=disable in the upstream DSN, "+
		"or give the proxy the certificate and key of PostgreSQL and set tls.channel_binding to same-certificate, "+
		"or set it to disabled if all clients have channel_binding=disable or log in without SCRAM, or set auth to scram", c.TLS.Mode)
}

func (c *Config) listensOnTCP() bool {
	for _, l := range c.Listen {
		if !strings.HasPrefix(l.Address, "/") {
			return true
		}
	}
	return false
}
