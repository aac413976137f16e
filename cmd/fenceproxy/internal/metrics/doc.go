// Package metrics counts what the proxy does, for Prometheus. Labels are closed sets: words of this program, SQLSTATEs
// of class ZF, and the fences of the configuration; nothing that a client writes becomes a label. What happens per
// message costs one atomic addition and no allocation.
package metrics
