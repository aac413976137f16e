package config

import "strings"

// checkAuth finds what is wrong between the settings of logins.
func (f *file) checkAuth() {
	c := f.config
	if c.Auth == AuthRelay {
		for _, key := range []string{"auth_query", "auth_file", "auth_cache"} {
			at, given := f.origins[key]
			if _, decided := f.origins["auth"]; given && !decided {
				f.errs.add(at, "%s without auth, which is relay: set it to scram", key)
				return
			}
		}
		return
	}
	if c.AuthQuery != "" && !strings.Contains(c.AuthQuery, "$1") {
		f.errs.add(f.origins["auth_query"], "auth_query must have the parameter $1, which is the user")
	}
	if c.TLS.ChannelBinding != "" && c.TLS.Mode != TLSDisable {
		f.errs.add(f.origins["tls.channel_binding"], "tls.channel_binding is for auth relay: with auth scram each leg has a binding of its own")
	}
}
