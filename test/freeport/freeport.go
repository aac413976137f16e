// Package freeport finds ports for servers that tests start in processes of their own.
//
// Listening on port 0 and closing gives a port of the range that connections are made from (net.ipv4.ip_local_port_range,
// 32768 and up by default): while nobody listens there, before the server starts or between two starts, the kernel may give
// it to any connection of any test. The ports here lie below that range.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

const first, last = 10000, 32000

var (
	mu    sync.Mutex
	given = map[int]bool{}
)

// Take returns a port of 127.0.0.1 on which nobody listens, another one each time. Safe for concurrent use.
func Take() (int, error) {
	mu.Lock()
	defer mu.Unlock()
	err := errors.New("freeport: all ports were given already")
	for range 100 {
		port := first + rand.IntN(last-first)
		if given[port] {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", address(port)); err == nil {
			l.Close()
			given[port] = true
			return port, nil
		}
	}
	return 0, err
}

// Address is 127.0.0.1 with a port that Take gives.
func Address() (string, error) {
	port, err := Take()
	return address(port), err
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
