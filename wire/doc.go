// Package wire reads and writes the PostgreSQL protocol, version 3: the startup packet, the frames after it, and the few
// messages that fenceproxy looks into or sends itself. What comes from strangers is read by decoders that are bounded,
// do not allocate and report malformed input as ok == false, where PostgreSQL would answer 08P01; what the proxy sends is
// written with pgproto3. Nothing here does I/O except ReadStartup, keeps state, or knows what a fence is. Everything that
// is not understood stays the bytes it was, so that the proxy can pass it on.
package wire
