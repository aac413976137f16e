package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/admin"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/holding"
	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/tokens"
)

// standFor makes the holder of the configured lock.
func (p *proxy) standFor(c *config.Config) error {
	url := evictWith(c.Hold.Backend, c.TakeoverGrace)
	if err := lockclient.Check(url); err != nil {
		return fmt.Errorf("hold.backend: %w", err)
	}
	p.holder = holding.New(holding.Config{
		Lock: c.Hold.Lock,
		Open: func(ctx context.Context, o ...lockclient.Option) (*lockclient.Client, error) {
			return lockclient.Open(ctx, url, o...)
		},
		Raise:       p.raiseHeld,
		WhenNotHeld: holding.WhenNotHeld(c.Hold.WhenNotHeld),
		Wait:        c.Hold.Wait,
		Log:         p.log,
		Changed:     p.metrics.RegisterHold(),
	})
	p.ready.Holding(func() bool { return p.holder.State().Holding })
	return nil
}

// raiseHeld raises the token of a tenure in the database that the control connection leads to; sessions in others raise it
// there. Who may announce (announce.roles) is a question to clients, not to the proxy.
func (p *proxy) raiseHeld(ctx context.Context, item tokens.Item) *tokens.Error {
	s := p.current.Load()
	control, err := pgconn.ParseConfig(s.config.ControlDSN())
	if err != nil {
		return &tokens.Error{Code: tokens.CodeUnavailable, Fence: item.Fence, Message: config.DSNError(err).Error()}
	}
	a, err := p.control.Under(tokens.Policy{Fences: s.config.FenceNames(), Bare: s.config.BareFence(), Grace: max(s.config.TakeoverGrace, 1), MaxJump: s.config.AnnounceMaxJump})
	if err != nil {
		return &tokens.Error{Code: tokens.CodeUnavailable, Fence: item.Fence, Message: err.Error()}
	}
	p.control.Forget(control.Database) // the answer must be the database's
	who := tokens.Session{Database: control.Database, User: control.User, Application: "fenceproxy serve --hold"}
	_, e := (&announcer{Announcer: a, bare: s.config.BareFence(), fresh: s.fresh, inForce: s.inForce}).Announce(ctx, who, tokens.List{item})
	return e
}

// giveUp releases the lock as soon as no session can write any more, before the last client has gone.
func (p *proxy) giveUp(ctx context.Context) {
	for p.server.Relaying() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
	p.holder.Close()
}

// evictWith has a lease table end frozen transactions as soon as the proxy does.
func evictWith(url string, grace time.Duration) string {
	a, err := lockclient.ParseAddress(url)
	if err != nil || !strings.HasPrefix(a.Scheme, "postgres") || a.Options.Has("evict") {
		return url
	}
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	return url + separator + "evict=" + max(grace, time.Millisecond).String()
}

// pages are those of the admin listener that depend on the configuration.
func (p *proxy) pages() []admin.Page {
	pages := []admin.Page{admin.ReloadPage(p.reloadByAdmin), p.catalogPage()}
	if p.holder == nil {
		return pages
	}
	return append(pages, admin.Page{Pattern: "GET /holder", Handler: func(w http.ResponseWriter, _ *http.Request) {
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
	}})
}
