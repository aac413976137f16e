package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fenceproxy/fenceproxy/lockclient"
)

// unreached says why the cluster did not answer in time, which the client keeps to itself: it repeats a request until the
// end, and then only tells that. Each endpoint is tried by hand. An endpoint that cannot be trusted, or does not trust us, is
// for good; everything else may be better the next time.
func unreached(ctx context.Context, cfg clientv3.Config, after time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	reasons := make([]error, len(cfg.Endpoints))
	done := make(chan int)
	for i, e := range cfg.Endpoints {
		go func() {
			reasons[i] = fmt.Errorf("%s: %w", e, try(ctx, e, cfg.TLS))
			done <- i
		}()
	}
	refused := true
	for range reasons {
		refused = certificateRefused(reasons[<-done]) && refused
	}
	err := fmt.Errorf("etcd did not answer within %v", after)
	for _, r := range reasons {
		err = fmt.Errorf("%w; %w", err, r)
	}
	if refused {
		return err
	}
	return fmt.Errorf("%w: %w", lockclient.ErrUnavailable, err)
}

var errSilent = errors.New("accepts connections but does not answer")

// try greets an endpoint as an HTTP/2 client does, and waits for its greeting.
func try(ctx context.Context, endpoint string, secure *tls.Config) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if secure != nil {
		own := secure.Clone()
		own.NextProtos = []string{"h2"}
		if own.ServerName == "" {
			own.ServerName = u.Hostname()
		}
		encrypted := tls.Client(conn, own)
		if err := encrypted.HandshakeContext(ctx); err != nil {
			switch {
			case ctx.Err() != nil:
				return errSilent
			case errors.Is(err, io.EOF):
				return fmt.Errorf("%w: it has closed the connection; does it speak TLS?", err)
			}
			return err
		}
		conn = encrypted
	}
	conn.SetDeadline(time.Now().Add(time.Second))
	_, err = conn.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 0, 0, 0, 4, 0, 0, 0, 0, 0)) // RFC 9113, 3.4: and settings, none
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	switch {
	case err == nil:
		return errors.New("answers, but not in time, or the cluster has no leader")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errSilent
	case secure == nil:
		return fmt.Errorf("%w; does it want TLS (tls=true)?", err)
	}
	return err
}

// certificateRefused: one side does not trust the other, or does not speak TLS.
func certificateRefused(err error) bool {
	var untrusted *tls.CertificateVerificationError
	var other *net.OpError
	var plain tls.RecordHeaderError
	return errors.As(err, &untrusted) || errors.As(err, &plain) ||
		errors.As(err, &other) && other.Op == "remote error" // an alert (crypto/tls, conn.go readRecordOrCCS)
}
