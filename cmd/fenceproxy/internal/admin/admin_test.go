package admin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestReadyzSaysWhyNot(t *testing.T) {
	answer := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for _, tc := range []struct {
		name string
		ping func(context.Context) error
		prep func(*Readiness)
		code int
		body string
	}{
		{"starting", nil, func(*Readiness) {}, 503, "not ready: listeners are not open yet\n"},
		{"ready", answer(nil), (*Readiness).Listening, 200, "ready\n"},
		{"ready without control", nil, (*Readiness).Listening, 200, "ready\n"},
		{"control fails", answer(errors.New("password of app at 10.0.0.1")), (*Readiness).Listening, 503, "not ready: the control connection fails\n"},
		{"control hangs", hang, (*Readiness).Listening, 503, "not ready: the control connection does not answer\n"},
		{"draining", answer(nil), func(r *Readiness) { r.Listening(); r.Drain() }, 503, "not ready: draining: no new sessions\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ready := NewReadiness(tc.ping, nil)
			tc.prep(ready)
			code, body := get(t, Handler(prometheus.NewRegistry(), ready), "/readyz")
			if code != tc.code || body != tc.body {
				t.Errorf("got %d %q, want %d %q", code, body, tc.code, tc.body)
			}
		})
	}
}

func TestLivezWhileDraining(t *testing.T) {
	ready := NewReadiness(nil, nil)
	ready.Drain()
	if code, body := get(t, Handler(prometheus.NewRegistry(), ready), "/livez"); code != 200 || body != "alive\n" {
		t.Errorf("got %d %q", code, body)
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin")
	left, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	left.Close() // as kill -9 leaves it
	s, err := Listen(path, false, prometheus.NewRegistry(), NewReadiness(nil, nil), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", path)
	}}}
	res, err := client.Get("http://admin/livez")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if string(body) != "alive\n" {
		t.Errorf("got %q", body)
	}
	s.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestReload(t *testing.T) {
	var failure error
	h := Handler(prometheus.NewRegistry(), NewReadiness(nil, nil), ReloadPage(func() (any, error) { return map[string]int{"sessions": 3}, failure }))
	post := func(origin string) (int, string) {
		t.Helper()
		r := httptest.NewRequest(http.MethodPost, "/reload", nil)
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	if code, body := post(""); code != 200 || body != "{\"sessions\":3}\n" {
		t.Errorf("%d %q", code, body)
	}
	if code, _ := post("http://elsewhere.example"); code != 403 {
		t.Errorf("a web page can reload: %d", code)
	}
	failure = errors.New("f.yaml:1:1: wrong")
	if code, body := post(""); code != 422 || body != "f.yaml:1:1: wrong\n" {
		t.Errorf("%d %q", code, body)
	}
	if code, _ := get(t, h, "/reload"); code != 405 {
		t.Errorf("GET reloads: %d", code)
	}
}
