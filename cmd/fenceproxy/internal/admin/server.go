package admin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/wire/relay"
)

// Server answers on the admin address.
type Server struct {
	http     http.Server
	listener net.Listener
	withdraw func() // ends the offer to share the listener
}

// Listen opens address, host:port or the path of a Unix socket, which only our own user may connect to. share: another
// process may listen there too, see relay.Open.
func Listen(address string, share bool, registry *prometheus.Registry, ready *Readiness, log *zap.Logger, more ...Page) (*Server, error) {
	l, err := relay.Open(context.Background(), address, share, 0o700)
	if err != nil {
		return nil, err
	}
	s := &Server{listener: l, withdraw: func() {}, http: http.Server{
		Handler:           Handler(registry, ready, more...),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          zap.NewStdLog(log.Named("admin")),
	}}
	if share {
		s.withdraw = relay.Offer(address, l)
	}
	return s, nil
}

// Addr is the address that was opened.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve answers until Close.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close ends the listener; requests under way have a second.
func (s *Server) Close() {
	s.withdraw()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
}

// Page is one more page of the listener. Pattern is that of an http.ServeMux.
type Page struct {
	Pattern string
	Handler http.HandlerFunc
}

// Handler routes the three pages, and more.
func Handler(registry *prometheus.Registry, ready *Readiness, more ...Page) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		text(w, http.StatusOK, "alive\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if reasons := ready.Check(r.Context()); len(reasons) > 0 {
			text(w, http.StatusServiceUnavailable, "not ready: "+strings.Join(reasons, "; ")+"\n")
			return
		}
		text(w, http.StatusOK, "ready\n")
	})
	for _, p := range more {
		mux.HandleFunc(p.Pattern, p.Handler)
	}
	return mux
}

func text(w http.ResponseWriter, status int, body string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	io.WriteString(w, body)
}
