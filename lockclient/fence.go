package lockclient

import "github.com/fenceproxy/fenceproxy/tokens"

// Fence is what a holder presents to the database: fixed at acquisition, never read again.
type Fence struct {
	Lock   string
	Token  tokens.Token
	Issuer string
}

// String is the item for the session parameter fence.token, e.g. "billing=34".
func (f Fence) String() string { return tokens.List{f.Item()}.String() }

// Item is the fence as an entry of a token list.
func (f Fence) Item() tokens.Item { return tokens.Item{Fence: f.Lock, Token: f.Token} }
