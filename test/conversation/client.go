package conversation

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// replyLimit ends a wait for a reply that never comes; a passing run never waits for it.
const replyLimit = 10 * time.Second

// Client speaks raw protocol messages.
type Client struct {
	conn net.Conn
	in   *bufio.Reader
	Cut  func([]byte) []int // lengths of the pieces to write in; nil: one write
}

// Dial opens a connection and sends the startup packet with the parameters in the order given.
func Dial(addr string, params ...string) (*Client, error) {
	return Open(addr, nil, Startup(params...))
}

// Open opens a connection and sends a packet of any kind, cut as all that follows.
func Open(addr string, cut func([]byte) []int, packet []byte) (*Client, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn, in: bufio.NewReader(conn), Cut: cut}
	return c, c.Write(packet)
}

// Startup is a startup packet of protocol 3.0.
func Startup(params ...string) []byte {
	packet := []byte{0, 0, 0, 0, 0, 3, 0, 0}
	for _, text := range params {
		packet = append(append(packet, text...), 0)
	}
	packet = append(packet, 0)
	binary.BigEndian.PutUint32(packet, uint32(len(packet)))
	return packet
}

// Write sends bytes, in pieces when Cut is set.
func (c *Client) Write(out []byte) error {
	if c.Cut != nil {
		for _, n := range c.Cut(out) {
			if _, err := c.conn.Write(out[:n]); err != nil {
				return err
			}
			out = out[n:]
		}
	}
	_, err := c.conn.Write(out)
	return err
}

// Close ends the connection.
func (c *Client) Close() { c.conn.Close() }

// Next reads one message, whole. The end of the connection is (0, nil, nil).
func (c *Client) Next() (raw []byte, err error) {
	c.conn.SetReadDeadline(time.Now().Add(replyLimit))
	var head [5]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return nil, fmt.Errorf("no reply within %v", replyLimit)
		}
		return nil, nil // EOF or reset: both are an end
	}
	n := int(binary.BigEndian.Uint32(head[1:]))
	if n < 4 || n > 1<<28 {
		return nil, fmt.Errorf("message %q of length %d", head[0], n)
	}
	raw = append(head[:], make([]byte, n-4)...)
	_, err = io.ReadFull(c.in, raw[5:])
	return raw, err
}

// Untilready reads up to and with the first ReadyForQuery, or to the end of the connection.
func (c *Client) UntilReady() (raw [][]byte, err error) {
	for {
		message, err := c.Next()
		if err != nil || message == nil {
			return raw, err
		}
		raw = append(raw, message)
		if message[0] == 'Z' {
			return raw, nil
		}
	}
}
