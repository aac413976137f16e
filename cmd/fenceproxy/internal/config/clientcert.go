package config

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgconn"
)

// addCertificate gives the TLS settings the certificate of sslcert and sslkey. pgx keeps its own way to itself, so it is
// the same one again: the files are read at each handshake, and once now to tell what is wrong with them.
func (u *Upstream) addCertificate(dsn string, cfg *pgconn.Config) error {
	if u.settings == nil || cfg.SSLCertMode == "disable" {
		return nil
	}
	if cfg.SSLCertMode == "require" {
		return errors.New("sslcertmode=require in a DSN is not supported")
	}
	all, err := settingsOf(dsn)
	if err != nil {
		return fmt.Errorf("not a DSN: %w", err)
	}
	if all["sslcert"] == "" {
		return nil
	}
	load := func() (*tls.Certificate, error) {
		return loadCertificate(all["sslcert"], all["sslkey"], all["sslpassword"])
	}
	if _, err := load(); err != nil {
		return err
	}
	u.settings.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c, err := load()
		if err == nil && asked.SupportsCertificate(c) != nil {
			c = new(tls.Certificate) // none: the server will say so
		}
		return c, err
	}
	return nil
}

func loadCertificate(cert, key, password string) (*tls.Certificate, error) {
	chain, err := os.ReadFile(cert)
	if err != nil {
		return nil, err
	}
	secret, err := os.ReadFile(key)
	if err != nil {
		return nil, err
	}
	if block, _ := pem.Decode(secret); block != nil && x509.IsEncryptedPEMBlock(block) {
		plain, err := x509.DecryptPEMBlock(block, []byte(password))
		if err != nil {
			return nil, errors.New("sslpassword does not open sslkey")
		}
		secret = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: plain})
	}
	pair, err := tls.X509KeyPair(chain, secret)
	if err != nil {
		return nil, fmt.Errorf("sslcert and sslkey: %w", err)
	}
	return &pair, nil
}
