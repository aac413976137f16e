package lockclient

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Address is a backend's URL. net/url refuses a list of hosts with ports, which cluster clients need.
type Address struct {
	Scheme  string
	User    *url.Userinfo // nil when there is none
	Hosts   []string      // host or host:port, as written, at least one
	Path    string        // without the leading slash, unescaped
	Options url.Values
}

// ParseAddress splits scheme://[user[:password]@]host[:port][,host[:port]…][/path][?options]. Errors hold no password.
func ParseAddress(s string) (Address, error) {
	var a Address
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme == "" {
		return a, errors.New("lock backend is not a URL of the form scheme://host/path?options")
	}
	a.Scheme = strings.ToLower(scheme)
	rest, query, _ := strings.Cut(rest, "?")
	var err error
	if a.Options, err = url.ParseQuery(query); err != nil {
		return a, fmt.Errorf("options of the %s URL are malformed", a.Scheme)
	}
	authority, path, _ := strings.Cut(rest, "/")
	if a.Path, err = url.PathUnescape(path); err != nil {
		return a, fmt.Errorf("path of the %s URL: %w", a.Scheme, err)
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		name, password, hasPassword := strings.Cut(authority[:at], ":")
		name, err1 := url.PathUnescape(name)
		password, err2 := url.PathUnescape(password)
		if err1 != nil || err2 != nil {
			return a, fmt.Errorf("user or password of the %s URL has a malformed %%-escape", a.Scheme)
		}
		if a.User = url.User(name); hasPassword {
			a.User = url.UserPassword(name, password)
		}
		authority = authority[at+1:]
	}
	a.Hosts = strings.Split(authority, ",")
	for _, h := range a.Hosts {
		if h == "" && len(a.Hosts) > 1 {
			return a, fmt.Errorf("the %s URL has an empty host", a.Scheme)
		}
	}
	return a, nil
}
