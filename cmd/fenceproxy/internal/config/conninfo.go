package config

import (
	"cmp"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgservicefile"
)

// conninfo are the settings of a DSN by libpq's names.
type conninfo map[string]string

// conninfoVariables are the environment variables of the settings that are asked for here.
var conninfoVariables = map[string]string{
	"service": "PGSERVICE", "servicefile": "PGSERVICEFILE",
	"sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY", "sslpassword": "PGSSLPASSWORD",
}

// settingsOf reads a DSN that pgx accepts, for settings that pgx keeps to itself. The DSN wins over its service, that over
// the environment, and that over the files in the home directory, as with libpq.
func settingsOf(dsn string) (conninfo, error) {
	own, err := parseConninfo(dsn)
	if err != nil {
		return nil, err
	}
	all := homeFiles()
	for name, variable := range conninfoVariables {
		if v := os.Getenv(variable); v != "" {
			all[name] = v
		}
	}
	if name := cmp.Or(own["service"], all["service"]); name != "" {
		services, err := pgservicefile.ReadServicefile(cmp.Or(own["servicefile"], all["servicefile"]))
		if err != nil {
			return nil, errors.New("cannot read the service file")
		}
		service, err := services.GetService(name)
		if err != nil {
			return nil, errors.New("the service file has no such service")
		}
		for k, v := range service.Settings {
			all[k] = v
		}
	}
	for k, v := range own {
		all[k] = v
	}
	return all, nil
}

// homeFiles are what libpq looks for without being told. pgx takes a certificate and its key together only.
func homeFiles() conninfo {
	all := conninfo{}
	home, err := os.UserHomeDir()
	if err != nil {
		return all
	}
	all["servicefile"] = filepath.Join(home, ".pg_service.conf")
	cert, key := filepath.Join(home, ".postgresql", "postgresql.crt"), filepath.Join(home, ".postgresql", "postgresql.key")
	if exists(cert) && exists(key) {
		all["sslcert"], all["sslkey"] = cert, key
	}
	return all
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func parseConninfo(dsn string) (conninfo, error) {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return parseKeywords(dsn)
	}
	_, query, _ := strings.Cut(dsn, "?")
	all := conninfo{}
	for pair := range strings.SplitSeq(query, "&") {
		k, v, _ := strings.Cut(pair, "=")
		name, wrongName := url.PathUnescape(k)
		value, wrongValue := url.PathUnescape(v)
		if wrongName != nil || wrongValue != nil {
			return nil, errors.New("its query is malformed") // the text may hold a password
		}
		all[name] = value
	}
	return all, nil
}

// parseKeywords is libpq's conninfo_parse: name = value with blanks around the equals sign, values in quotes or not, and a
// backslash that takes the next character as it is.
func parseKeywords(s string) (conninfo, error) {
	all := conninfo{}
	for s = strings.TrimLeft(s, " \t\n\v\f\r"); s != ""; s = strings.TrimLeft(s, " \t\n\v\f\r") {
		name, rest, found := strings.Cut(s, "=")
		if name = strings.TrimRight(name, " \t\n\v\f\r"); !found || name == "" || strings.ContainsAny(name, " \t\n\v\f\r") {
			return nil, errors.New("a setting has no value")
		}
		rest = strings.TrimLeft(rest, " \t\n\v\f\r")
		quoted := strings.HasPrefix(rest, "'")
		if quoted {
			rest = rest[1:]
		}
		var value strings.Builder
		i, closed := 0, false
		for ; i < len(rest) && !closed; i++ {
			switch c := rest[i]; {
			case c == '\\':
				if i++; i < len(rest) {
					value.WriteByte(rest[i])
				}
			case quoted && c == '\'', !quoted && strings.IndexByte(" \t\n\v\f\r", c) >= 0:
				closed = true
			default:
				value.WriteByte(c)
			}
		}
		if quoted && !closed {
			return nil, errors.New("a quote is not closed")
		}
		all[name] = value.String()
		s = rest[min(i, len(rest)):]
	}
	return all, nil
}
