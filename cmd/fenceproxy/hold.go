package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/admin"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/holding"
	"github.com/fenceproxy/fenceproxy/lockclient"
)

// standFor makes the holder of the configured lock.
func (p *proxy) standFor(c *config.Config) {
	p.holder = holding.New(holding.Config{
		Lock:        c.Hold.Lock,
		Open:        func(ctx context.Context) (*lockclient.Client, error) { return lockclient.Open(ctx, c.Hold.Backend) },
		WhenNotHeld: holding.WhenNotHeld(c.Hold.WhenNotHeld),
		Wait:        c.Hold.Wait,
		Log:         p.log,
		Changed:     p.metrics.RegisterHold(),
	})
	p.ready.Holding(func() bool { return p.holder.State().Holding })
}

// pages are those of the admin listener that depend on the configuration.
func (p *proxy) pages() []admin.Page {
	if p.holder == nil {
		return nil
	}
	return []admin.Page{{Pattern: "GET /holder", Handler: func(w http.ResponseWriter, _ *http.Request) {
		s := p.holder.State()
		b, err := json.Marshal(s)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if !s.Holding {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintf(w, "%s\n", b)
	}}}
}
