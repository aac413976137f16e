// Package storm throws clients and servers at the proxy that come in great numbers, are killed at random moments, or
// misbehave, and looks at what is left behind: goroutines, descriptors, sessions, backends, locks, memory.
package storm
