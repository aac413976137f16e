package etcdtest

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// network carries what the members send to each other. Each member has an HTTP proxy of its own, given to it in HTTP_PROXY,
// so a request's source is the proxy it came through and its destination the name in its URL: streams, posts and
// forwarded renewals alike.
type network struct {
	proxies []string

	mu   sync.Mutex
	side []int
	cut  context.Context // ends with the next change
	end  context.CancelFunc
}

const nameSuffix = ".member.invalid"

func newNetwork(tb testing.TB, n int) *network {
	tb.Helper()
	net_ := &network{}
	net_.cut, net_.end = context.WithCancel(context.Background())
	if n < 2 {
		return net_
	}
	quiet := log.New(io.Discard, "", 0)
	transport := &http.Transport{MaxIdleConnsPerHost: 32, ResponseHeaderTimeout: 5 * time.Second}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			_, port, _ := net.SplitHostPort(r.In.URL.Host)
			r.Out.URL.Host = "127.0.0.1:" + port
			r.Out.Host = r.In.Host
		},
		Transport: transport, FlushInterval: -1, ErrorLog: quiet,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	for i := range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, open := net_.route(i, r.URL.Hostname())
			if !open {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			both, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			proxy.ServeHTTP(w, r.WithContext(both))
		}), ErrorLog: quiet}
		go server.Serve(l)
		tb.Cleanup(func() { server.Close() })
		net_.proxies = append(net_.proxies, "http://"+l.Addr().String())
	}
	tb.Cleanup(transport.CloseIdleConnections)
	return net_
}

func (n *network) name(i int) string  { return fmt.Sprintf("m%d%s", i, nameSuffix) }
func (n *network) proxy(i int) string { return n.proxies[i] }

// route reports whether member from may reach the host named, and a context that ends when that may have changed.
func (n *network) route(from int, host string) (context.Context, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var to int
	fmt.Sscanf(strings.TrimSuffix(host, nameSuffix), "m%d", &to)
	return n.cut, slices.Contains(n.side, from) == slices.Contains(n.side, to)
}

func (n *network) split(side []int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.side = side
	n.end()
	n.cut, n.end = context.WithCancel(context.Background())
}
