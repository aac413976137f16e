package postgres

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// hub listens for changes, on one connection for the whole client while anybody waits or observes. It only saves time:
// whoever is told by it looks for himself, and looks without it too.
type hub struct {
	config *pgx.ConnConfig
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	claims  map[string]chan struct{}
	names   map[string]map[chan struct{}]bool
	running bool
	hears   bool // notifications arrive
}

func newHub(config *pgx.ConnConfig) *hub {
	h := &hub{config: config, claims: map[string]chan struct{}{}, names: map[string]map[chan struct{}]bool{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

func (h *hub) close() {
	h.mu.Lock() // nothing starts any more, for a WaitGroup that is waited for must not grow
	h.cancel()
	h.mu.Unlock()
	h.work.Wait()
}

func (h *hub) live() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hears
}

// claim tells when it may be the claim's turn.
func (h *hub) claim(id string) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.claims[id] = ch
	h.start()
	return ch, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.claims, id)
	}
}

// watch tells of changes of a lock.
func (h *hub) watch(name string) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.names[name] == nil {
		h.names[name] = map[chan struct{}]bool{}
	}
	h.names[name][ch] = true
	h.start()
	return ch, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if delete(h.names[name], ch); len(h.names[name]) == 0 {
			delete(h.names, name)
		}
	}
}

// start is called with mu held.
func (h *hub) start() {
	if !h.running && h.ctx.Err() == nil {
		h.running = true
		h.work.Go(h.run)
	}
}

func (h *hub) needed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() == nil && len(h.claims)+len(h.names) > 0 {
		return true
	}
	h.running = false
	return false
}

func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// hear passes a notification on. Its payload is the lock's name and, behind a blank, the claim whose turn it is.
func (h *hub) hear(payload string) {
	name, next, _ := strings.Cut(payload, " ")
	h.mu.Lock()
	defer h.mu.Unlock()
	if ch := h.claims[next]; ch != nil {
		poke(ch)
	}
	for ch := range h.names[name] {
		poke(ch)
	}
}

// turn switches hearing on or off. Whoever has waited meanwhile looks: he may have missed something.
func (h *hub) turn(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hears = on
	if !on {
		return
	}
	for _, ch := range h.claims {
		poke(ch)
	}
	for _, chs := range h.names {
		for ch := range chs {
			poke(ch)
		}
	}
}

const (
	idleLook    = 10 * time.Second // how often to see whether anybody still waits
	mostBackoff = 30 * time.Second
)

func (h *hub) run() {
	for backoff := 100 * time.Millisecond; h.needed(); backoff = min(2*backoff, mostBackoff) {
		if h.listen() {
			backoff = 100 * time.Millisecond
		}
		h.turn(false)
		select {
		case <-h.ctx.Done():
		case <-time.After(backoff):
		}
	}
}

// listen until the connection breaks or nobody needs it. It reports whether it could listen at all.
func (h *hub) listen() bool {
	conn, err := pgx.ConnectConfig(h.ctx, h.config.Copy())
	if err != nil {
		return false
	}
	defer closeSoon(conn)
	if pooled, err := behindPooler(h.ctx, conn); err != nil || pooled {
		return false // LISTEN would stay behind in a session of others
	}
	if _, err := conn.Exec(h.ctx, "LISTEN fence_lease"); err != nil {
		return false
	}
	h.turn(true)
	for {
		ctx, cancel := context.WithTimeout(h.ctx, idleLook)
		n, err := conn.WaitForNotification(ctx)
		timeout := ctx.Err() != nil && h.ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			h.hear(n.Payload)
		case !timeout || conn.IsClosed():
			return true
		default:
			h.mu.Lock()
			idle := len(h.claims)+len(h.names) == 0
			h.mu.Unlock()
			if idle {
				return true
			}
		}
	}
}

// behindPooler: the server's process id, as told at connection start, is a pooler's invention when it is not the
// backend's own. PgBouncer, Odyssey, PgCat and RDS Proxy all make one up, for they answer cancel requests themselves.
func behindPooler(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var pid uint32
	err := conn.QueryRow(ctx, "SELECT pg_catalog.pg_backend_pid()::oid").Scan(&pid)
	return pid != conn.PgConn().PID(), err
}
