package lockclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Driver opens the backends of one URL scheme.
type Driver struct {
	// Options that the URL may have, with a line of help each. An empty map: the driver judges options itself.
	Options map[string]string
	Open    func(ctx context.Context, a Address) (Backend, error)
	// Check finds what is wrong with an address before anybody connects. It may read files. May be nil.
	Check func(a Address) error
}

var (
	driversMu sync.RWMutex
	drivers   = map[string]Driver{}
)

// Register makes a URL scheme known to Open. Backends do it when they are imported. It panics when the scheme is taken.
func Register(scheme string, d Driver) {
	driversMu.Lock()
	defer driversMu.Unlock()
	if _, taken := drivers[scheme]; taken {
		panic("lockclient: scheme " + scheme + " is registered twice")
	}
	drivers[scheme] = d
}

// Schemes lists what Open knows, sorted.
func Schemes() []string {
	driversMu.RLock()
	defer driversMu.RUnlock()
	return slices.Sorted(maps.Keys(drivers))
}

// clientOptions are options of every URL. They are not passed to the driver.
var clientOptions = map[string]string{
	"ttl":    "time after which others may take the lock of a holder that does not renew it, e.g. 10s",
	"grace":  "time before the end of the trust window at which work is stopped, e.g. 2s",
	"holder": "name that others see",
}

// Open makes a Client for a URL such as etcd://host1:2379,host2:2379/prefix?ttl=5s. Which schemes there are depends on the
// packages imported; an unknown scheme or option is an error that lists the known ones. Options given as opts override
// the URL's. Close the Client when it is no longer needed.
func Open(ctx context.Context, url string, opts ...Option) (*Client, error) {
	a, d, own, err := resolve(url)
	if err != nil {
		return nil, err
	}
	b, err := d.Open(ctx, a)
	if err != nil {
		return nil, err
	}
	c := New(b, append(own, opts...)...)
	if err := c.cfg.check(c.caps); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return c, nil
}

// Check finds what is wrong with a URL for Open without connecting: what it says will not mend itself. The minimum of the
// TTL is the service's to tell, and not looked at.
func Check(url string, opts ...Option) error {
	a, d, own, err := resolve(url)
	if err != nil {
		return err
	}
	if d.Check != nil {
		if err := d.Check(a); err != nil {
			return err
		}
	}
	return defaults(Capabilities{}).with(append(own, opts...)).check(Capabilities{})
}

// resolve finds the driver of a URL, and what the client itself has to know of it.
func resolve(url string) (a Address, d Driver, own []Option, err error) {
	if a, err = ParseAddress(url); err != nil {
		return a, d, nil, err
	}
	driversMu.RLock()
	d, ok := drivers[a.Scheme]
	driversMu.RUnlock()
	if !ok {
		known := strings.Join(Schemes(), ", ")
		if known == "" {
			known = "none, import a backend's package"
		}
		return a, d, nil, fmt.Errorf("unknown lock backend %q; known: %s", a.Scheme, known)
	}
	if own, err = a.takeClientOptions(); err != nil {
		return a, d, nil, err
	}
	return a, d, own, a.checkOptions(d.Options)
}

func (a *Address) takeClientOptions() (opts []Option, err error) {
	duration := func(name string, option func(time.Duration) Option) {
		if text := a.Options.Get(name); text != "" {
			d, e := time.ParseDuration(text)
			if e != nil {
				err = errors.Join(err, fmt.Errorf("option %s: %w", name, e))
			}
			opts = append(opts, option(d))
		}
	}
	duration("ttl", WithTTL)
	duration("grace", WithGrace)
	if h := a.Options.Get("holder"); h != "" {
		opts = append(opts, WithHolder(h))
	}
	for name := range clientOptions {
		a.Options.Del(name)
	}
	return opts, err
}

func (a *Address) checkOptions(known map[string]string) error {
	if len(known) == 0 {
		return nil
	}
	var err error
	for _, name := range slices.Sorted(maps.Keys(a.Options)) {
		if _, ok := known[name]; !ok {
			err = errors.Join(err, fmt.Errorf("unknown option %q of %s://", name, a.Scheme))
		}
	}
	if err == nil {
		return nil
	}
	var b strings.Builder
	b.WriteString("known options:")
	for _, m := range []map[string]string{known, clientOptions} {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			fmt.Fprintf(&b, "\n  %s: %s", name, m[name])
		}
	}
	return errors.Join(err, errors.New(b.String()))
}
