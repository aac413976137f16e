package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

func quote(v string) string { return strconv.Quote(Mask(v)) }

func setWord[T ~string](to *T, what string, words []string, v string) error {
	if !slices.Contains(words, v) {
		return fmt.Errorf("unknown %s %s: want %s", what, quote(v), oneOf(words))
	}
	*to = T(v)
	return nil
}

func setBool(to *bool, v string) error {
	switch v {
	case "true":
		*to = true
	case "false":
		*to = false
	default:
		return fmt.Errorf("%s is neither true nor false", quote(v))
	}
	return nil
}

func setDuration(to *time.Duration, v string, low, high time.Duration) error {
	d, err := time.ParseDuration(v)
	if err != nil {
		return fmt.Errorf("%s is not a duration: want a number with a unit, like 500ms, 10s or 2m", quote(v))
	}
	if d < low || d > high {
		return fmt.Errorf("%s is out of range: want %s to %s", v, shortDuration(low), shortDuration(high))
	}
	*to = d
	return nil
}

// shortDuration is a duration without the zero parts that Duration.String adds: 24h, not 24h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func setInteger[T int | int64](to *T, v string, low, high int64) error {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("%s is not a whole number", quote(v))
	}
	if err != nil || n < low || n > high {
		return fmt.Errorf("%s is out of range: want %d to %d", v, low, high)
	}
	*to = T(n)
	return nil
}

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1000}, {"MB", 1000_000}, {"GB", 1000_000_000}, {"B", 1}, {"", 1}}

func setSize(to *int64, v string, low, high int64) error {
	for _, u := range sizeUnits {
		number, has := strings.CutSuffix(v, u.suffix)
		if !has {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n < 0 {
			break
		}
		if n > high/u.bytes || n*u.bytes < low {
			return fmt.Errorf("%s is out of range: want %s to %s", v, sizeText(low), sizeText(high))
		}
		*to = n * u.bytes
		return nil
	}
	return fmt.Errorf("%s is not a size: want a whole number of bytes or a unit, like 65536, 64KiB or 16MiB", quote(v))
}

func sizeText(n int64) string {
	for _, u := range []int{2, 1, 0} {
		if unit := sizeUnits[u]; n >= unit.bytes && n%unit.bytes == 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

// checkAddress accepts host:port and the absolute path of a Unix socket.
func checkAddress(v string) error {
	if strings.HasPrefix(v, "/") {
		if len(v) > 103 { // sockaddr_un.sun_path, the shortest of the systems we run on
			return fmt.Errorf("the path of a Unix socket has at most 103 bytes, this one has %d", len(v))
		}
		return nil
	}
	_, port, err := net.SplitHostPort(v)
	if err != nil {
		return fmt.Errorf("%s is not an address: want host:port, :port or the absolute path of a Unix socket", quote(v))
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%s is not a port: want 0 to 65535", quote(port))
	}
	return nil
}

func addListener(c *Config, v string, pooled bool) error {
	if err := checkAddress(v); err != nil {
		return err
	}
	for _, l := range c.Listen {
		if l.Address == v && !strings.HasSuffix(v, ":0") {
			return fmt.Errorf("%s is listed twice", quote(v))
		}
	}
	c.Listen = append(c.Listen, Listener{Address: v, Pooled: pooled})
	return nil
}

func setPath(to *string, v string) error {
	if strings.ContainsRune(v, 0) || v != "" && strings.HasSuffix(v, "/") {
		return fmt.Errorf("%s is not the path of a file", quote(v))
	}
	*to = v
	return nil
}

func checkRole(v string) error {
	if v == "" || strings.ContainsRune(v, 0) {
		return errors.New("a role name cannot be empty")
	}
	return nil
}

func addHarmless(c *Config, v string) error {
	parts, rest := splitName(v)
	if rest != "" || len(parts) == 0 || len(parts) > 2 || slices.Contains(parts, "*") {
		return fmt.Errorf("%s is not a function: want name or schema.name, without parentheses", quote(v))
	}
	c.HarmlessFunctions = append(c.HarmlessFunctions, v)
	return nil
}

// addFunctionCall takes large_objects and the oids of functions, which have no other name in the message.
func addFunctionCall(c *Config, v string) error {
	if v != LargeObjects {
		if n, err := strconv.ParseUint(v, 10, 32); err != nil || n == 0 {
			return fmt.Errorf("%s is neither %s nor the oid of a function", quote(v), LargeObjects)
		}
	}
	c.FunctionCalls = append(c.FunctionCalls, v)
	return nil
}
