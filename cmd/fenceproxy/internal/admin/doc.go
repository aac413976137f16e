// Package admin is the HTTP listener for operators: /metrics, /livez and /readyz. It has no authentication: bind it to
// an address that only operators and their monitoring reach.
package admin
