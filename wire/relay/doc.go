// Package relay runs sessions: client bytes in, server bytes out, and back. Its Engine is a state machine without I/O
// that knows which reply belongs to which message, puts a guard in front of each statement that may write fenced data,
// presents tokens before they are used and refuses what must not run by having the server refuse it in its place. The
// rest of the package is the driver: sockets, limits, drain. Bytes that need no attention are never copied or decoded.
package relay
