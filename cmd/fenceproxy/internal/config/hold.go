package config

import (
	"os"
	"slices"

	"github.com/fenceproxy/fenceproxy/tokens"
)

// backendVariable is the environment's lock service for every command that takes a lock.
const backendVariable = "FENCEPROXY_BACKEND"

func (f *file) checkHold() {
	h := &f.config.Hold
	if h.Lock == "" {
		if h.Backend != "" {
			f.errs.add(f.origins["hold.backend"], "hold.backend without hold.lock: which lock is to be held?")
		}
		for _, key := range []string{"hold.when_not_held", "hold.wait"} {
			if o, given := f.origins[key]; given {
				f.errs.add(o, "%s without hold.lock: no lock is held", key)
			}
		}
		return
	}
	if h.Backend == "" {
		h.Backend = os.Getenv(backendVariable)
	}
	switch {
	case h.Backend == "":
		f.errs.add(f.origins["hold.lock"], "hold.lock without a lock service: set hold.backend, %s or --backend", backendVariable)
	case f.config.Mode != ModeEnforce:
		f.errs.add(f.origins["hold.lock"], "hold.lock needs mode enforce: without it nothing stops a holder that has lost the lock")
	case !slices.ContainsFunc(f.config.FenceNames(), func(fence string) bool { return tokens.Matches(fence, h.Lock) }):
		f.errs.add(f.origins["hold.lock"], "hold.lock: no fence is called %s; the lock protects the fence of its name", quote(h.Lock))
	}
}
