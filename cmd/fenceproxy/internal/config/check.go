package config

import "slices"

// check finds what is wrong between settings that are right by themselves.
func (f *file) check(partial bool) {
	c := f.config
	if c.BareToken != "" && !slices.Contains(c.FenceNames(), c.BareToken) {
		f.errs.add(f.origins["bare_token"], "bare_token: no fence is called %s", quote(c.BareToken))
	}
	if c.Admin != "" {
		for _, l := range c.Listen {
			if l.Address == c.Admin && c.Admin[len(c.Admin)-2:] != ":0" {
				f.errs.add(f.origins["admin"], "admin: %s is an address for clients already", quote(c.Admin))
			}
		}
	}
	f.checkRowTokens()
	f.checkHold()
	f.checkTLS()
	f.checkAuth()
	if partial || len(f.errs.Problems) > 0 {
		return
	}
	if c.Upstream == "" {
		f.errs.add(Origin{}, "no upstream: set upstream, FENCEPROXY_UPSTREAM or --upstream")
	}
	f.checkBothLegs()
	if len(c.Listen) == 0 {
		f.errs.add(f.origins["listen"], "no address to listen on")
	}
	if len(c.Fences) == 0 && c.Mode != ModeOff {
		f.errs.add(f.origins["fences"], "no fences: mode %s would protect nothing; set fences, FENCEPROXY_FENCES or --fence, or mode off", c.Mode)
	}
}
