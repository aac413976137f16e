package holding

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/tokens"
	"github.com/fenceproxy/fenceproxy/wire"
	"github.com/fenceproxy/fenceproxy/wire/relay"
)

// WhenNotHeld says what a client gets that comes while another instance holds the lock.
type WhenNotHeld string

const (
	Wait     WhenNotHeld = "wait"     // it waits, at most Config.Wait
	Refuse   WhenNotHeld = "refuse"   // an error
	ReadOnly WhenNotHeld = "readonly" // a session without a token, which is read-only
)

// Config of a Holder.
type Config struct {
	Lock string // its name, and that of the fence
	Open func(context.Context, ...lockclient.Option) (*lockclient.Client, error)
	// Raise makes the token of a new tenure the mark of the fence, before anybody is told that the lock is held. So the
	// former holder is cut off also while no client comes, and a lock service that has lost its history is found out here.
	Raise       func(context.Context, tokens.Item) *tokens.Error
	WhenNotHeld WhenNotHeld
	Wait        time.Duration
	Log         *zap.Logger
	Changed     func(held bool) // may be nil
}

// Holder is safe for concurrent use.
type Holder struct {
	cfg    Config
	stop   context.CancelFunc
	ctx    context.Context
	queue  context.Context // ends with StandDown, and with ctx
	leave  context.CancelFunc
	begin  sync.Once
	ended  chan struct{}
	client *lockclient.Client // of run

	mu      sync.Mutex
	current *tenure
	reading context.Context // of read-only sessions: ends when the lock is ours
	read    context.CancelFunc
	changed chan struct{} // closed and replaced when current becomes another
	leader  lockclient.Leader
	err     error              // why the lock could not be taken, nil since it was
	away    error              // why the lock service could not be asked, nil since it answered
	again   context.CancelFunc // has watch ask it anew
}

type tenure struct {
	relay.Tenure
	lease  *lockclient.Lease
	since  time.Time
	asking bool // whether the database still takes its token
}

// New makes a holder that does nothing yet.
func New(cfg Config) *Holder {
	h := &Holder{cfg: cfg, ended: make(chan struct{}), changed: make(chan struct{})}
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.queue, h.leave = context.WithCancel(h.ctx)
	h.reading, h.read = context.WithCancel(h.ctx)
	h.again = func() {}
	return h
}

// Start begins to stand for the lock.
func (h *Holder) Start() { h.begin.Do(func() { go h.run() }) }

// StandDown takes the holder out of the queue for the lock. One that holds it goes on until the lock is lost, or Close.
func (h *Holder) StandDown() { h.leave() }

// Close gives the lock up, if it is held, and waits until that is done. Sessions of the tenure should have ended before:
// those that are left are cut off.
// It may be called more than once.
func (h *Holder) Close() {
	h.stop()
	h.begin.Do(func() { close(h.ended) }) // never started: a listener could not be opened
	<-h.ended
}

// retryPause is for a lock service that is not there.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 5 * time.Second
)

func (h *Holder) run() {
	defer close(h.ended)
	pause := firstPause
	for h.queue.Err() == nil {
		began := time.Now()
		err := h.stand()
		if h.queue.Err() != nil {
			break
		}
		if errors.Is(err, lockclient.ErrLost) && time.Since(began) > time.Second {
			pause = firstPause
			continue
		}
		h.failed(err)
		select {
		case <-h.queue.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
	if h.client != nil {
		h.client.Close()
	}
}

// stand takes the lock once and holds it until it is lost, or the holder is closed.
func (h *Holder) stand() error {
	if h.client == nil {
		c, err := h.cfg.Open(h.queue, lockclient.WithHooks(lockclient.Hooks{Requeued: h.requeued}))
		if err != nil {
			return err
		}
		h.client = c
		go h.watch(c)
	}
	ctx, cancel := context.WithCancel(h.ctx) // of the lease: it outlives StandDown, the wait for it does not
	defer cancel()
	stay := context.AfterFunc(h.queue, cancel)
	lease, err := h.client.Lock(ctx, h.cfg.Lock)
	if err != nil {
		return err
	}
	if !stay() {
		return lease.Release(context.Background())
	}
	if err := h.raise(lease); err != nil {
		lease.Release(context.Background())
		return err
	}
	h.took(lease)
	select {
	case <-lease.Context().Done():
	case <-h.ctx.Done():
	}
	h.lost(lease)
	lease.Release(context.Background()) // bounded by the client's release timeout
	return lease.Err()
}

// raise has the error of the lease when that was lost meanwhile.
func (h *Holder) raise(l *lockclient.Lease) error {
	f := l.Fence()
	e := h.cfg.Raise(l.Context(), tokens.Item{Fence: f.Lock, Token: f.Token})
	if lost := l.Err(); lost != nil {
		return lost
	}
	if e == nil {
		return nil
	}
	return &raiseError{f.Token, e}
}

func (h *Holder) took(l *lockclient.Lease) {
	t := &tenure{lease: l, since: time.Now()}
	t.Tenure = relay.Tenure{Token: l.Fence().String(), Over: l.Context(), Words: &wire.Error{Severity: "FATAL", Code: tokens.CodeStale,
		Message: "fenceproxy has lost the lock \"" + h.cfg.Lock + "\"",
		Detail:  "The session had token " + l.Fence().Token.String() + "; another holder may have taken over.",
		Hint:    "Connect again. What was not committed is rolled back."}}
	h.mu.Lock()
	h.err, h.away = nil, nil
	h.set(t)
	h.read() // read-only sessions begin again as writers
	h.mu.Unlock()
	h.cfg.Log.Info("lock acquired", zap.String("lock", h.cfg.Lock), zap.Stringer("token", l.Fence().Token))
	if h.cfg.Changed != nil {
		h.cfg.Changed(true)
	}
}

func (h *Holder) lost(l *lockclient.Lease) {
	h.mu.Lock()
	h.set(nil)
	h.reading, h.read = context.WithCancel(h.ctx)
	h.mu.Unlock()
	if h.ctx.Err() != nil {
		h.cfg.Log.Info("lock given up", zap.String("lock", h.cfg.Lock), zap.Stringer("token", l.Fence().Token))
	} else {
		h.cfg.Log.Warn("lock lost", zap.String("lock", h.cfg.Lock), zap.Stringer("token", l.Fence().Token), zap.Error(l.Err()))
	}
	if h.cfg.Changed != nil {
		h.cfg.Changed(false)
	}
}

// set is called with mu held.
func (h *Holder) set(t *tenure) {
	h.current = t
	close(h.changed)
	h.changed = make(chan struct{})
}

// failed is told of what will not mend itself while we wait.
func (h *Holder) failed(err error) {
	h.mu.Lock()
	h.err = err
	h.mu.Unlock()
	h.cfg.Log.Error("cannot take the lock", zap.String("lock", h.cfg.Lock), zap.String("problem", problem(err)), zap.Error(err))
}

// Fenced implements relay.Holder: if the database says so too, the lease is lost, whatever the lock service thinks.
func (h *Holder) Fenced(t *relay.Tenure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.current
	if c == nil || &c.Tenure != t || c.asking {
		return
	}
	c.asking = true
	go func() {
		// A client can assign a token by ways that nobody sees, so the database is asked about ours.
		f := c.lease.Fence()
		if e := h.cfg.Raise(c.lease.Context(), tokens.Item{Fence: f.Lock, Token: f.Token}); e != nil && e.Code == tokens.CodeStale {
			c.lease.MarkLost(errors.New("the database has a higher token"))
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		c.asking = false
	}()
}
