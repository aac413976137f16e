package wire

import (
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
)

// EndPointBinding is the tls-server-end-point of a server's certificate (RFC 5929, 4.1); nil where that is not defined, as
// for Ed25519, whose signature names no hash function: PostgreSQL cannot bind to such a certificate either.
func EndPointBinding(c *x509.Certificate) []byte {
	switch c.SignatureAlgorithm {
	case x509.MD5WithRSA, x509.SHA1WithRSA, x509.ECDSAWithSHA1, x509.SHA256WithRSA, x509.SHA256WithRSAPSS, x509.ECDSAWithSHA256:
		h := sha256.Sum256(c.Raw)
		return h[:]
	case x509.SHA384WithRSA, x509.SHA384WithRSAPSS, x509.ECDSAWithSHA384:
		h := sha512.Sum384(c.Raw)
		return h[:]
	case x509.SHA512WithRSA, x509.SHA512WithRSAPSS, x509.ECDSAWithSHA512:
		h := sha512.Sum512(c.Raw)
		return h[:]
	}
	return nil
}
