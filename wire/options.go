package wire

import "strings"

// Options reads the value of the startup parameter "options" as a PostgreSQL backend does: split into arguments at
// unescaped blanks (postinit.c pg_split_opts), then -c name=value and --name=value among the switches, in the grammar of
// getopt (postgres.c process_postgres_switches). Switches that set nothing by name are passed over. ok is false when the
// server refuses the value.
func Options(value string) (params []Param, ok bool) {
	var operands bool
	args := splitOptions(value)
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			operands = operands || len(args) > 0
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			operands = true // glibc's getopt looks for switches behind it all the same
			continue
		}
		for letters := arg[1:]; letters != ""; {
			letter := letters[0]
			letters = letters[1:]
			switch {
			case strings.IndexByte(switchesAlone, letter) >= 0:
				continue
			case strings.IndexByte(switchesWithValue, letter) < 0:
				return nil, false
			}
			if letters == "" { // the value is the next argument, whatever it looks like
				if len(args) == 0 {
					return nil, false
				}
				letters, args = args[0], args[1:]
			}
			if letter == 'c' || letter == '-' {
				name, v, given := strings.Cut(letters, "=")
				if !given {
					return nil, false // "-c NAME requires a value"
				}
				params = append(params, Param{strings.ReplaceAll(name, "-", "_"), v})
			}
			break
		}
	}
	return params, !operands
}

// The switches of postgres.c, "B:bC:c:D:d:EeFf:h:ijk:lN:nOPp:r:S:sTt:v:W:-:".
const (
	switchesAlone     = "bEeFijlnOPsT"
	switchesWithValue = "BCcDdfhkNprStvW-"
)

// splitOptions is pg_split_opts: blanks separate, a backslash takes the next byte as it is, a lone one at the end is
// dropped.
func splitOptions(s string) (args []string) {
	for i := 0; i < len(s); {
		if isSpace(s[i]) {
			i++
			continue
		}
		var arg []byte
		for ; i < len(s) && !isSpace(s[i]); i++ {
			if s[i] == '\\' {
				i++
				if i == len(s) {
					break
				}
			}
			arg = append(arg, s[i])
		}
		args = append(args, string(arg))
	}
	return args
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// Setting is the value that the packet gives to a setting of the server, by its name in any case. PostgreSQL applies
// the options first, then the parameters of the packet in their order, and the last one stays (postinit.c
// process_startup_options).
func (s *Startup) Setting(name string) (value string, present bool) {
	set := func(p Param) {
		if equalFold(p.Name, name) {
			value, present = p.Value, true
		}
	}
	if text, given := s.param("options"); given {
		params, _ := Options(text)
		for _, p := range params {
			set(p)
		}
	}
	for _, p := range s.Params {
		switch {
		case p.Name == "user", p.Name == "database", p.Name == "options", p.Name == "replication",
			strings.HasPrefix(p.Name, "_pq_."):
		default:
			set(p)
		}
	}
	return value, present
}

// equalFold compares names as guc.c guc_name_compare does: only ASCII letters fold.
func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
