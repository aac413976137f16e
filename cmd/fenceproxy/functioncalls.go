package main

import (
	"strconv"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/wire/relay"
)

// functionCalls are the oids of the functions that may be called outside of SQL.
func functionCalls(names []string) (oids []uint32) {
	for _, name := range names {
		if name == config.LargeObjects {
			oids = append(oids, relay.LargeObjectFunctions...)
			continue
		}
		n, _ := strconv.ParseUint(name, 10, 32) // checked when it was read
		oids = append(oids, uint32(n))
	}
	return oids
}
