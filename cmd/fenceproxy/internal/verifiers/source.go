package verifiers

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fenceproxy/fenceproxy/wire"
)

// Config says where verifiers come from: one of File and Query at least.
type Config struct {
	File  string        // userlist
	DSN   string        // of the database that Query is asked in
	Query string        // with one parameter, the user
	TTL   time.Duration // how long an answer of the query is remembered; 0: not at all
}

// Source has verifiers. Its methods may be called concurrently.
type Source struct {
	config Config
	query  *query // nil without
	list   atomic.Pointer[Userlist]

	mu      sync.Mutex
	known   map[string]answer // users with a verifier
	unknown map[string]answer // users without: anybody can make up names, so these are kept apart
}

// Bounds of what is remembered. A full map is forgotten as a whole.
const (
	maxKnown   = 10_000
	maxUnknown = 1_000
)

// New reads the file, if there is one. The database is not asked yet.
func New(c Config) (*Source, error) {
	s := &Source{config: c, known: map[string]answer{}, unknown: map[string]answer{}}
	list, err := s.Load()
	if err != nil {
		return nil, err
	}
	s.Use(list)
	if c.Query != "" {
		if s.query, err = newQuery(c.DSN, c.Query); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Load reads the file again and changes nothing yet: Use does.
func (s *Source) Load() (Userlist, error) {
	if s.config.File == "" {
		return nil, nil
	}
	return ReadUserlist(s.config.File)
}

// Use takes what Load has given, and forgets what was remembered.
func (s *Source) Use(list Userlist) {
	s.list.Store(&list)
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
	clear(s.unknown)
}

// Verifier implements relay.Verifiers.
func (s *Source) Verifier(ctx context.Context, user string) (*wire.ScramVerifier, error) {
	return s.find(ctx, user, time.Now().Add(-s.config.TTL))
}

// Fresh implements relay.Verifiers.
func (s *Source) Fresh(ctx context.Context, user string) (*wire.ScramVerifier, error) {
	return s.find(ctx, user, time.Now())
}

// Doubt implements relay.Verifiers. An answer of just now is kept, so that whoever guesses passwords does not make the
// database answer each time.
func (s *Source) Doubt(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, ok := s.known[user]; ok && time.Since(a.at) > time.Second {
		delete(s.known, user)
	}
}

// find gives an answer that is not older than since.
func (s *Source) find(ctx context.Context, user string, since time.Time) (*wire.ScramVerifier, error) {
	if v, listed := (*s.list.Load())[user]; listed || s.query == nil {
		return v, nil
	}
	known := func() (answer, bool) { return s.remembered(user, since) }
	a, ok := known()
	if !ok {
		var err error
		if a, err = s.query.ask(ctx, user, known); err != nil {
			return nil, err
		}
		s.remember(user, a)
	}
	return a.valid(time.Now()), nil
}

func (s *Source) remembered(user string, since time.Time) (answer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.known[user]
	if !ok {
		a, ok = s.unknown[user]
	}
	return a, ok && a.at.After(since)
}

func (s *Source) remember(user string, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, user)
	delete(s.unknown, user)
	in, most := s.known, maxKnown
	if a.verifier == nil {
		in, most = s.unknown, maxUnknown
	}
	if len(in) >= most {
		clear(in)
	}
	in[user] = a
}

// Close ends the connection.
func (s *Source) Close() {
	if s.query != nil {
		s.query.close()
	}
}
