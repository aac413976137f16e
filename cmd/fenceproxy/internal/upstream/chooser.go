package upstream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/wire/relay"
)

const (
	// fresh is how long an answer counts: a server that was the primary a moment ago may not be it any more.
	fresh = 500 * time.Millisecond
	// patience is how long a server may take to say what it is.
	patience = 3 * time.Second
)

// Chooser knows the servers. Safe for concurrent use.
type Chooser struct {
	target  config.Target
	servers []*server
	log     *zap.Logger

	mu     sync.Mutex
	asked  time.Time
	order  []relay.Address
	err    error
	asking chan struct{} // not nil while the servers are asked; closed at its end
	last   string        // what the log was told
}

// New makes one for the hosts of a configuration; nil when it has none.
func New(c *config.Config, log *zap.Logger) (*Chooser, error) {
	u, err := c.UpstreamAddress()
	if err != nil || len(u.Hosts) == 0 {
		return nil, err
	}
	ch := &Chooser{target: u.Target, log: log}
	for _, h := range u.Hosts {
		cfg, err := c.HostConfig(h)
		if err != nil {
			return nil, err
		}
		ch.servers = append(ch.servers, &server{address: relay.Address{Network: h.Network, Address: h.Address, Name: h.Name}, config: cfg})
	}
	return ch, nil
}

// Hosts are for a relay.Server.
func (c *Chooser) Hosts() *relay.Hosts {
	h := &relay.Hosts{Order: c.Order}
	for _, s := range c.servers {
		h.All = append(h.All, s.address)
	}
	return h
}

// Order gives the servers that sessions may go to now, in the order of the DSN.
func (c *Chooser) Order(ctx context.Context) ([]relay.Address, error) {
	if c.target == config.TargetAny {
		return c.Hosts().All, nil
	}
	c.mu.Lock()
	if time.Since(c.asked) < fresh {
		defer c.mu.Unlock()
		return c.order, c.err
	}
	done := c.asking
	if done == nil {
		done = make(chan struct{})
		c.asking = done
		go c.ask(done)
	}
	c.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order, c.err
}

// ask asks all servers at a time: one that is down must not keep the others from being found.
func (c *Chooser) ask(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	states := make([]state, len(c.servers))
	var work sync.WaitGroup
	for i, s := range c.servers {
		work.Go(func() { states[i] = s.ask(ctx) })
	}
	work.Wait()
	order, err := choose(c.target, c.servers, states)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order, c.err, c.asked, c.asking = order, err, time.Now(), nil
	c.tell()
	close(done)
}

// tell logs when sessions go elsewhere than before.
func (c *Chooser) tell() {
	now := fmt.Sprint(c.err)
	if c.err == nil {
		now = c.order[0].Address
	}
	switch {
	case now == c.last:
		return
	case c.err != nil:
		c.log.Error("no server to go to", zap.Error(c.err))
	default:
		c.log.Info("sessions go to", zap.String("upstream", now), zap.String("target_session_attrs", string(c.target)))
	}
	c.last = now
}

// Close ends the connections.
func (c *Chooser) Close() {
	for _, s := range c.servers {
		s.close()
	}
}

// state is what a server says of itself.
type state struct {
	err                error
	standby, readWrite bool
}

// choose picks the servers that the target wants (fe-connect.c, CONNECTION_CHECK_TARGET).
func choose(target config.Target, servers []*server, states []state) (order []relay.Address, err error) {
	var others []relay.Address
	for i, s := range states {
		at := servers[i].address
		if s.err != nil {
			err = fmt.Errorf("%s: %w", at.Address, s.err)
			continue
		}
		switch {
		case target == config.TargetPrimary && !s.standby, target == config.TargetStandby && s.standby,
			target == config.TargetReadWrite && s.readWrite, target == config.TargetReadOnly && !s.readWrite,
			target == config.TargetPreferStandby && s.standby:
			order = append(order, at)
		case target == config.TargetPreferStandby:
			others = append(others, at)
		}
	}
	order = append(order, others...)
	switch {
	case len(order) > 0:
		return order, nil
	case err != nil:
		return nil, fmt.Errorf("no server of the upstream is %s; %w", target, err)
	}
	return nil, fmt.Errorf("no server of the upstream is %s", target)
}

// server is asked on a connection that is kept.
type server struct {
	address relay.Address
	config  *pgx.ConnConfig

	mu   sync.Mutex
	conn *pgx.Conn
}

func (s *server) ask(ctx context.Context) (answer state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for kept := s.conn != nil; ; kept = false {
		if s.conn == nil {
			if s.conn, answer.err = pgx.ConnectConfig(ctx, s.config); answer.err != nil {
				s.conn = nil
				return answer
			}
		}
		var readOnly bool
		answer.err = s.conn.QueryRow(ctx, "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('transaction_read_only')::bool").
			Scan(&answer.standby, &readOnly)
		answer.readWrite = !readOnly
		if answer.err == nil {
			return answer
		}
		s.conn.Close(ctx)
		s.conn = nil
		if !kept {
			return answer
		}
	}
}

func (s *server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.conn.Close(ctx)
		s.conn = nil
	}
}
