package wire

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// TLSFiles are PEM files with what a server needs for TLS. ClientCA may be empty: clients are not asked for certificates
// then.
type TLSFiles struct {
	Cert     string // certificate, its intermediates behind it
	Key      string // private key of Cert, not encrypted
	ClientCA string // authorities that sign certificates of clients
}

// Load makes settings of the files: TLS 1.2 and newer, ALPN if the client offers any. A certificate of the client is
// verified if there is one; whether there must be one is decided when its startup packet is known, so that the error can
// be told in the protocol, as PostgreSQL does (auth.c ClientAuthentication).
func (f TLSFiles) Load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{ALPN},
		MinVersion:   tls.VersionTLS12,
		// A resumed session would outlive the authority that its client was verified by.
		SessionTicketsDisabled: true,
		// Small records pay for browsers, which draw what has come so far.
		DynamicRecordSizingDisabled: true,
	}
	if f.ClientCA != "" {
		pem, err := os.ReadFile(f.ClientCA)
		if err != nil {
			return nil, err
		}
		c.ClientCAs = x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", f.ClientCA)
		}
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return c, nil
}
