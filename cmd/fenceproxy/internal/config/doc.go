// Package config turns defaults, a YAML file, environment variables and flags into one immutable Config, in this
// order of precedence, lowest first. It is strict: an unknown key, a wrong type or an impossible value is an error that
// names the place, and all errors of a pass come at once. What it prints never shows a password.
package config
