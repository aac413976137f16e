// Package memory is a lock service in memory: the model that a client is tested against. A Server grants, queues and
// expires locks by its own clock; a Conn is a client's way to it, on which a test delays, loses and holds messages. With
// testing/synctest all of it runs in virtual time. It is of no use between processes.
package memory
