package config

import (
	"strings"

	"github.com/spf13/pflag"
)

// Flags collects what a command line sets. Values are read by Load, so that all that is wrong is reported at once.
type Flags struct {
	values []*flagValue
}

type flagValue struct {
	setting *setting
	raw     []string
	shown   string // default for --help
}

// AddFlags defines flags for the settings of the keys named; for all that have one when none are named.
func AddFlags(set *pflag.FlagSet, keys ...string) *Flags {
	flags := &Flags{}
	all := append([]*setting{&pooled}, pointers(settings)...)
	for _, s := range all {
		if s.flag == "" || len(keys) > 0 && !contains(keys, s.key) {
			continue
		}
		v := &flagValue{setting: s, shown: shownDefault(s.key)}
		flags.values = append(flags.values, v)
		set.Var(v, s.flag, s.usage)
		if s.kind == kindBool {
			set.Lookup(s.flag).NoOptDefVal = "true"
		}
	}
	return flags
}

func (f *Flags) apply(to *file) {
	fresh := true // --listen and --listen-pooled replace the list once, together
	for _, v := range f.values {
		if len(v.raw) == 0 {
			continue
		}
		isListen := v.setting.kind == kindListeners
		if v.setting.list() && (!isListen || fresh) {
			v.setting.reset(to.config)
		}
		fresh = fresh && !isListen
		to.override(v.setting, "--"+v.setting.flag, v.raw)
	}
}

func (v *flagValue) Set(raw string) error {
	if v.setting.list() {
		v.raw = append(v.raw, raw)
	} else {
		v.raw = []string{raw}
	}
	return nil
}

func (v *flagValue) String() string {
	if v == nil {
		return ""
	}
	return v.shown
}

// Type is the placeholder in --help.
func (v *flagValue) Type() string {
	switch v.setting.kind {
	case kindBool:
		return "bool"
	case kindDuration:
		return "DURATION"
	case kindInteger:
		return "N"
	case kindListeners:
		return "ADDRESS"
	case kindFences:
		return "NAME=TABLE[,TABLE]"
	}
	switch v.setting.key {
	case "upstream", "control":
		return "DSN"
	case "tls.cert", "tls.key", "tls.client_ca", "auth_file":
		return "FILE"
	case "auth":
		return "WAY"
	case "auth_query":
		return "SQL"
	case "tls.client_cert", "tls.channel_binding":
		return "KIND"
	case "admin":
		return "ADDRESS"
	case "bare_token":
		return "NAME"
	case "decision_log":
		return "VERDICTS"
	case "opaque", "opaque_call", "tokenless":
		return "POLICY"
	}
	return strings.ToUpper(v.setting.key[strings.LastIndexByte(v.setting.key, '.')+1:])
}

func shownDefault(key string) string {
	for _, l := range document(Default()) {
		if l.key == key && !l.list {
			return l.value
		}
	}
	if key == "listen" {
		return Default().Listen[0].Address
	}
	return ""
}

func pointers(list []setting) []*setting {
	out := make([]*setting, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
