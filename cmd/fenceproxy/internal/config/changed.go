package config

import "reflect"

// Changed are the keys of the settings in which b differs from a, in the order of the settings table. Passwords count.
func Changed(a, b *Config) []string {
	var keys []string
	before, after := document(a), document(b)
	for i := range after {
		key := after[i].key
		same := reflect.DeepEqual(before[i], after[i])
		switch key { // redacted in a document
		case "upstream":
			same = a.Upstream == b.Upstream
		case "control":
			same = a.Control == b.Control
		}
		if !same {
			keys = append(keys, key)
		}
	}
	return keys
}
