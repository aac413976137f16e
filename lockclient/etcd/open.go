package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/lockclient"
)

func init() {
	lockclient.Register("etcd", lockclient.Driver{
		Options: map[string]string{
			"tls":  "true to use TLS; implied by the next three",
			"ca":   "file with the CA certificates that servers are checked with; default: the system's",
			"cert": "file with the client's certificate",
			"key":  "file with the certificate's private key",
			"dial": "how long to try to reach the cluster when opening, default 5s",
		},
		Open:  open,
		Check: func(a lockclient.Address) error { _, err := clientConfig(a); return err },
	})
}

// open makes a Backend for etcd://[user:password@]host[:2379][,host…]/prefix?options.
func open(ctx context.Context, a lockclient.Address) (lockclient.Backend, error) {
	cfg, err := clientConfig(a)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, cfg.DialTimeout)
	defer cancel()
	client, err := clientv3.New(cfg) // asks for a token when there is a user
	if err != nil {
		return nil, opening(ctx, err, cfg)
	}
	b, err := New(limited, client, a.Path)
	if err != nil {
		client.Close()
		return nil, opening(ctx, err, cfg)
	}
	b.owned = true
	return b, nil
}

func clientConfig(a lockclient.Address) (cfg clientv3.Config, err error) {
	dial := 5 * time.Second
	if text := a.Options.Get("dial"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return cfg, fmt.Errorf("option dial: %q is not a positive duration", text)
		}
		dial = d
	}
	secure, err := tlsConfig(a)
	if err != nil {
		return cfg, err
	}
	cfg = clientv3.Config{
		TLS:         secure,
		DialTimeout: dial,
		Logger:      zap.NewNop(),
		// A connection that swallows packets is noticed within 13 s; etcd takes pings every 5 s at most.
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second, PermitWithoutStream: true,
	}
	for _, h := range a.Hosts {
		if h == "" {
			return cfg, errors.New("the etcd URL has no host")
		}
		cfg.Endpoints = append(cfg.Endpoints, endpoint(h, secure != nil))
	}
	if a.User != nil {
		cfg.Username = a.User.Username()
		cfg.Password, _ = a.User.Password()
	}
	return cfg, nil
}

// opening completes an error of opening that is no more than the end of the time for it.
func opening(ctx context.Context, err error, cfg clientv3.Config) error {
	if ctx.Err() == nil && passing(err) {
		return unreached(ctx, cfg, cfg.DialTimeout)
	}
	return err
}

func endpoint(host string, secure bool) string {
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), "2379")
	}
	if secure {
		return "https://" + host
	}
	return "http://" + host
}

// tlsConfig is nil for plain connections.
func tlsConfig(a lockclient.Address) (*tls.Config, error) {
	o := a.Options
	if on := o.Get("tls"); on != "true" && on != "false" && on != "" {
		return nil, fmt.Errorf("option tls is true or false, not %q", on)
	}
	if (o.Get("cert") == "") != (o.Get("key") == "") {
		return nil, errors.New("options cert and key go together")
	}
	if o.Get("tls") != "true" && o.Get("ca") == "" && o.Get("cert") == "" {
		return nil, nil
	}
	if o.Get("tls") == "false" {
		return nil, errors.New("option tls is false, but there are certificates")
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := o.Get("ca"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("option ca: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("option ca: %s holds no certificate", file)
		}
	}
	if file := o.Get("cert"); file != "" {
		pair, err := tls.LoadX509KeyPair(file, o.Get("key"))
		if err != nil {
			return nil, fmt.Errorf("options cert and key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
