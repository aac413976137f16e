package config

import (
	"net/url"
	"regexp"
	"strings"
)

// hidden takes the place of what is not shown.
const hidden = "*****"

// Mask cuts a text at the first sign of a DSN's secret part. It is for texts that could not be read, where a password
// has no certain place: everything behind "://" or "password" is cut, not only what looks like a password.
func Mask(s string) string {
	cut := len(s)
	if i := strings.Index(s, "://"); i >= 0 {
		cut = i + len("://")
	}
	if i := strings.Index(strings.ToLower(s), "password"); i >= 0 && i+len("password") < cut {
		cut = i + len("password")
	}
	if cut >= len(s) {
		return s
	}
	return s[:cut] + hidden
}

// secret are the keyword/value settings of a DSN that hold a secret: password and sslpassword, with PostgreSQL's
// quoting and blanks around the equals sign (fe-connect.c conninfo_parse).
var secret = regexp.MustCompile(`(?i)(password\s*=\s*)('(?:[^'\\]|\\.)*'|(?:[^\s\\]|\\.)*)`)

// RedactDSN is a DSN to be shown: the same without its passwords.
func RedactDSN(dsn string) string {
	if dsn == "" {
		return ""
	}
	if err := checkDSN(dsn); err != nil {
		return Mask(dsn)
	}
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return secret.ReplaceAllString(dsn, "${1}"+hidden)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return Mask(dsn)
	}
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), hidden)
	}
	query := u.Query()
	for key := range query {
		if strings.Contains(strings.ToLower(key), "password") {
			query.Set(key, hidden)
		}
	}
	u.RawQuery = query.Encode()
	return strings.ReplaceAll(u.String(), url.QueryEscape(hidden), hidden)
}
